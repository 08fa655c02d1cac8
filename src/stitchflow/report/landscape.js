"use strict";
// The landscape: one small picture a frame, which a canvas smooths, with its level lines.
const landscapeOf = (landscape) => {
  const STOPS = [[111, 159, 200], [168, 200, 222], [220, 233, 238], [247, 240, 220], [241, 220, 174]];
  const shade = (v) => {
    const at = Math.min(v * (STOPS.length - 1), STOPS.length - 1.001), i = Math.floor(at);
    return STOPS[i].map((c, k) => c + (at - i) * (STOPS[i + 1][k] - c));
  };
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const known = bytes(landscape.known), drawn = [];

  const picture = (frame) => {
    const at = Math.min(frame, landscape.v.length - 1), n = landscape.grid;
    if (drawn[at]) return drawn[at];
    const values = bytes(landscape.v[at]), canvas = document.createElement("canvas");
    canvas.width = canvas.height = n;
    const context = canvas.getContext("2d"), image = context.createImageData(n, n);
    for (let row = 0; row < n; row++) {
      for (let column = 0; column < n; column++) {
        const from = row * n + column, to = 4 * ((n - 1 - row) * n + column);
        shade(values[from] / 255).forEach((c, k) => { image.data[to + k] = c; });
        image.data[to + 3] = known[from];
      }
    }
    context.putImageData(image, 0, 0);
    return (drawn[at] = { canvas, lines: contours(values, n) });
  };

  // Level lines by marching squares; a segment per cell and level.
  const contours = (v, n) => {
    const segments = [];
    for (let level = 16; level < 255; level += 24) {
      for (let r = 0; r < n - 1; r++) {
        for (let c = 0; c < n - 1; c++) {
          if (known[r * n + c] < 128) continue;
          const corners = [[c, r], [c + 1, r], [c + 1, r + 1], [c, r + 1]];
          const heights = corners.map(([x, y]) => v[y * n + x] - level);
          const cuts = [];
          for (let k = 0; k < 4; k++) {
            const a = heights[k], b = heights[(k + 1) % 4], next = corners[(k + 1) % 4];
            if (a < 0 === b < 0) continue;
            const u = a / (a - b);
            cuts.push(corners[k][0] + u * (next[0] - corners[k][0]), corners[k][1] + u * (next[1] - corners[k][1]));
          }
          for (let k = 0; k + 3 < cuts.length; k += 4) segments.push(cuts.slice(k, k + 4));
        }
      }
    }
    return segments;
  };

  return picture;
};
