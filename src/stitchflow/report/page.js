(() => {
  const scene = JSON.parse(document.getElementById("scene").textContent);
  const { frames, times, data, samples, paths, landscape, ticks } = scene;
  const DATA = "#b84300", RING = "#0b4f6c", PATH = "#20242b";
  const PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"];
  const find = (id) => document.getElementById(id);
  const stage = find("stage"), slider = find("time"), play = find("play"), tip = find("tip");
  const layers = ["data", "samples", "paths", "land"];
  const shows = Object.fromEntries(layers.map((name) => [name, find("show-" + name)]));
  const number = (t) => String(Number(t.toPrecision(3)));
  const last = frames.length - 1;
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let now = 0;        // a frame, or a place between two
  let playing = null; // when it started
  let told = null;    // the point whose label is shown

  const byTime = times.map(() => []);
  data.time.forEach((k, i) => byTime[k].push(i));
  byTime.forEach((points) => points.sort((a, b) => data.at[2 * a] - data.at[2 * b]));

  const map = landscape && landscape.v ? landscapeOf(landscape) : null;

  // Where things are on a canvas.

  const view = (canvas, small) => {
    const { clientWidth: w, clientHeight: h } = canvas, ratio = Math.min(window.devicePixelRatio || 1, 2);
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const room = small ? { l: 2, r: 2, t: 2, b: 2 } : { l: 50, r: 10, t: 10, b: 40 };
    const wide = w - room.l - room.r, high = h - room.t - room.b;
    const place = (q) => [room.l + (q[0] / ticks) * wide, room.t + (1 - q[1] / ticks) * high];
    return { context, w, h, room, wide, high, place, small };
  };
  const between = (clouds, i, at) => {
    const a = Math.min(Math.floor(at), clouds.length - 1), b = Math.min(a + 1, clouds.length - 1), u = at - a;
    return [0, 1].map((k) => clouds[a][2 * i + k] + u * (clouds[b][2 * i + k] - clouds[a][2 * i + k]));
  };
  const clockAt = (at) => {
    const a = Math.floor(at), b = Math.min(a + 1, last);
    return frames[a] + (at - a) * (frames[b] - frames[a]);
  };
  const nearestTime = (t) => times.reduce((best, u, k) => (Math.abs(u - t) < Math.abs(times[best] - t) ? k : best), 0);
  const presence = (t, k) => {
    const gaps = [times[k] - (times[k - 1] ?? -Infinity), (times[k + 1] ?? Infinity) - times[k]];
    const gap = Math.min(...gaps.filter(Number.isFinite), frames[last] - frames[0]) || 1;
    return Math.max(0.15, 1 - (1.6 * Math.abs(t - times[k])) / gap);
  };
  const colourOf = (i) => (data.coloured && data.group[i] >= 0 ? PALETTE[data.group[i]] : DATA);

  const axes = ({ context, w, h, room, wide, high }) => {
    context.fillStyle = "#55606f";
    context.strokeStyle = "#d9dee5";
    context.font = "12px system-ui, sans-serif";
    context.lineWidth = 1;
    context.strokeRect(room.l, room.t, wide, high);
    scene.box.forEach(([low, high_], k) => {
      const rough = (high_ - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
      const step = power * [1, 2, 5, 10].find((m) => m * power >= rough);
      for (let v = Math.ceil(low / step) * step; v <= high_; v += step) {
        const u = (v - low) / (high_ - low), text = String(Number(v.toPrecision(3)) || 0);
        context.textAlign = k ? "right" : "center";
        if (k) context.fillText(text, room.l - 6, room.t + (1 - u) * high + 4);
        else context.fillText(text, room.l + u * wide, h - room.b + 16);
      }
    });
    context.textAlign = "center";
    context.fillText(scene.names[0], room.l + wide / 2, h - 6);
    context.save();
    context.translate(12, room.t + high / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(scene.names[1], 0, 0);
    context.restore();
  };

  const drawLand = ({ context, room, wide, high, place }, at) => {
    if (map) {
      const { canvas, lines } = map(Math.round(at)), n = landscape.grid;
      context.imageSmoothingEnabled = true;
      context.imageSmoothingQuality = "high";
      context.drawImage(canvas, room.l, room.t, wide, high);
      context.strokeStyle = "rgba(40, 60, 80, 0.22)";
      context.lineWidth = 0.8;
      context.beginPath();
      for (const [a, b, c, d] of lines) {
        context.moveTo(...place([(a / (n - 1)) * ticks, (b / (n - 1)) * ticks]));
        context.lineTo(...place([(c / (n - 1)) * ticks, (d / (n - 1)) * ticks]));
      }
      context.stroke();
    } else if (landscape) {
      const line = landscape.lines[Math.min(Math.round(at), landscape.lines.length - 1)];
      context.beginPath();
      for (let i = 0; 2 * i < line.length; i++) context.lineTo(...place([line[2 * i], line[2 * i + 1]]));
      context.strokeStyle = "#6f9fc8";
      context.lineWidth = 2;
      context.stroke();
    }
  };

  const drawPaths = ({ context, place, small }, at) => {
    const count = paths.length ? paths[0].length / 2 : 0, until = Math.floor(at);
    for (let i = 0; i < count; i++) {
      context.beginPath();
      for (let f = 0; f <= until; f++) context.lineTo(...place([paths[f][2 * i], paths[f][2 * i + 1]]));
      const head = place(between(paths, i, at));
      context.lineTo(...head);
      context.strokeStyle = PATH;
      context.globalAlpha = 0.4;
      context.lineWidth = small ? 0.5 : 0.9;
      context.stroke();
      context.globalAlpha = 1;
      disc(context, head, small ? 1 : 2.4, PATH);
    }
  };
  const disc = (context, [x, y], radius, fill, rim) => {
    context.beginPath();
    context.arc(x, y, radius, 0, 7);
    context.fillStyle = fill;
    context.fill();
    if (rim) { context.strokeStyle = rim; context.lineWidth = 0.7; context.stroke(); }
  };

  const paint = (canvas, at, small) => {
    const v = view(canvas, small), { context, place, room, wide, high } = v, t = clockAt(at);
    context.clearRect(0, 0, v.w, v.h);
    context.save();
    context.beginPath();
    context.rect(room.l, room.t, wide, high);
    context.clip();
    if (shows.land.checked) drawLand(v, at);
    if (shows.paths.checked) drawPaths(v, at);
    if (shows.data.checked) {
      const k = nearestTime(t);
      context.globalAlpha = presence(t, k);
      const points = byTime[k];
      for (const i of points) disc(context, place([data.at[2 * i], data.at[2 * i + 1]]), small ? 1.3 : 3, colourOf(i), small ? null : "#fff");
      context.globalAlpha = 1;
    }
    if (shows.samples.checked && samples.length) {
      context.strokeStyle = RING;
      context.lineWidth = small ? 0.6 : 1.3;
      for (let i = 0; 2 * i < samples[0].length; i += small ? 2 : 1) {
        context.beginPath();
        context.arc(...place(between(samples, i, at)), small ? 1.6 : 3.6, 0, 7);
        context.stroke();
      }
    }
    if (told && !small) disc(context, told.at(v), 6, "rgba(0, 0, 0, 0)", "#000");
    context.restore();
    if (!small) axes(v);
    return v;
  };

  // Who is under the pointer, or next by keyboard.

  const individual = (i) => ({
    text: [data.label[i], data.group[i] >= 0 ? data.groups[data.group[i]] : "", "t = " + number(times[data.time[i]]),
      data.held[i] ? "held out" : "trained on"].filter(Boolean).join(" · "),
    at: (v) => v.place([data.at[2 * i], data.at[2 * i + 1]]), i,
  });
  const traveller = (i) => ({
    text: "simulated, started from " + scene.starts[i], at: (v) => v.place(between(paths, i, now)), i: -1,
  });
  const candidates = () => [
    ...(shows.data.checked ? byTime[nearestTime(clockAt(now))].map(individual) : []),
    ...(shows.paths.checked ? scene.starts.map((_, i) => traveller(i)) : []),
  ];
  const tell = (point) => {
    told = point;
    tip.hidden = !point;
    const v = paint(stage, now, false);
    if (!point) return;
    tip.textContent = point.text;
    const [x, y] = point.at(v);
    tip.style.left = Math.max(0, Math.min(x + 12, v.w - tip.offsetWidth - 4)) + "px";
    tip.style.top = Math.max(0, y - tip.offsetHeight - 10) + "px";
  };
  const pointed = (event) => {
    const box = stage.getBoundingClientRect(), v = view(stage, false);
    let best = null, least = 14;
    for (const point of candidates()) {
      const [x, y] = point.at(v), far = Math.hypot(x - (event.clientX - box.left), y - (event.clientY - box.top));
      if (far < least) { least = far; best = point; }
    }
    tell(best);
  };
  stage.addEventListener("pointermove", pointed);
  stage.addEventListener("pointerdown", pointed);
  stage.addEventListener("pointerleave", () => tell(null));
  stage.addEventListener("blur", () => tell(null));
  stage.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const points = byTime[nearestTime(clockAt(now))];
    if (event.key === "Escape") tell(null);
    if (!step || !points.length) return;
    event.preventDefault();
    const before = told ? points.indexOf(told.i) : -1;
    tell(individual(points[(before + step + points.length) % points.length]));
  });

  // Time.

  const strip = find("strip"), thumbs = [];
  const go = (at) => {
    now = Math.max(0, Math.min(at, last));
    told = null;
    tip.hidden = true;
    const t = clockAt(now), k = nearestTime(t), count = byTime[k].length;
    slider.value = String(Math.round(now));
    slider.setAttribute("aria-valuetext", "time " + number(t));
    find("clock").textContent = "t = " + number(t);
    stage.setAttribute("aria-label", `The population at time ${number(t)}: ${count} observed individuals of time ` +
      `${number(times[k])}, samples of the fitted curve, and ${scene.starts.length} simulated trajectories.`);
    for (const { button, frame } of thumbs) button.setAttribute("aria-current", String(Math.abs(frame - now) < 0.5));
    paint(stage, now, false);
  };
  const stop = () => {
    playing = null;
    play.textContent = "Play";
    play.setAttribute("aria-pressed", "false");
  };
  const tick = (clock) => {
    if (!playing) return;
    playing.from ??= clock;
    const at = playing.at + (clock - playing.from) / 140;
    go(still.matches ? Math.floor(at) : at);
    if (at >= last) stop();
    else requestAnimationFrame(tick);
  };
  play.addEventListener("click", () => {
    if (playing) return stop();
    playing = { at: now >= last - 0.01 ? 0 : now };
    play.textContent = "Pause";
    play.setAttribute("aria-pressed", "true");
    requestAnimationFrame(tick);
  });
  slider.addEventListener("input", () => { stop(); go(Number(slider.value)); });

  // A strip of observed times, to jump to and to print.

  const most = 6, step = Math.max(1, (times.length - 1) / (most - 1));
  for (let k = 0; k < Math.min(most, times.length); k++) {
    const t = times[Math.round(k * step)];
    const frame = frames.reduce((best, u, f) => (Math.abs(u - t) < Math.abs(frames[best] - t) ? f : best), 0);
    const button = document.createElement("button"), canvas = document.createElement("canvas");
    button.type = "button";
    button.append(canvas, "t = " + number(t));
    button.setAttribute("aria-label", "Go to time " + number(t));
    button.addEventListener("click", () => { stop(); go(frame); });
    strip.append(button);
    thumbs.push({ button, canvas, frame });
  }
  if (data.coloured) {
    data.groups.forEach((name, i) => {
      const entry = document.createElement("span"), key = document.createElement("i");
      key.className = "key";
      key.style.background = PALETTE[i];
      entry.append(key, name);
      find("groups").append(entry);
    });
  }
  const all = () => {
    for (const { canvas, frame } of thumbs) paint(canvas, frame, true);
    go(now);
  };
  for (const box of Object.values(shows)) box.addEventListener("change", all);
  new ResizeObserver(all).observe(stage);
  window.addEventListener("beforeprint", all);
  all();
})();
