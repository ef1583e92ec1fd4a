"""Ternline, the sample company: a small ferry operator with people, systems, decisions and disagreements."""
