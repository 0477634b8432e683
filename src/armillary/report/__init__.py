"""The page of a record, or of two side by side: one self-contained file of words, figures and tables."""

from __future__ import annotations

from armillary.report.beside import write_comparison
from armillary.report.page import write_report
from armillary.report.runs_beside import write_run_comparison

__all__ = ["write_comparison", "write_report", "write_run_comparison"]
