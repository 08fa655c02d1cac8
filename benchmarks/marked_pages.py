"""Tables on hand-written pages: each stands between two marks and is replaced by its script."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
END = "<!-- end -->"


def put(page: Path, mark: str, text: str) -> str:
    """The page with `text` between `<!-- mark -->` and the end mark after it."""
    start = f"<!-- {mark} -->"
    head, rest = page.read_text(encoding="utf-8").split(start)
    return f"{head}{start}\n\n{text.strip()}\n\n{END}{rest.split(END, 1)[1]}"


def fill(page: Path, mark: str, text: str) -> None:
    page.write_text(put(page, mark, text), encoding="utf-8")
