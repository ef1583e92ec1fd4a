"""With what we work: settings, errors, text analysis, and one module a capability behind a protocol of ours."""
