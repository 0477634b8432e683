"""The page of a record: one self-contained file that says in words, figures and tables what was measured."""

from __future__ import annotations

from armillary.report.page import write_report

__all__ = ["write_report"]
