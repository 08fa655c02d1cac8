"""Progress bars, of terminals and of notebooks."""

import warnings

from tqdm import TqdmWarning

with warnings.catch_warnings():
    # A notebook without ipywidgets has bars of text, which need no word at the import.
    warnings.simplefilter("ignore", TqdmWarning)
    from tqdm.auto import tqdm

__all__ = ["tqdm"]
