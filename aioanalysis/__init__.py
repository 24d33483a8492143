"""The analysis service of a DNA-barcode workbench."""

__version__ = "0.1.0"
