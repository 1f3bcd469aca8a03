"""The command line: `pellucid VERB ...`, one file a verb."""

from pellucid.cli.entry import main

__all__ = ["main"]
