"""`muster admin get | export | apply --dry-run | delete`: the organisation as documents.

What `get` and `export` write as YAML or JSON, `muster admin apply` reads: it changes nothing then.
"""
