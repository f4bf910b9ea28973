"""The dashboard: server-rendered pages for the people of a tenant.

Pages call the same use cases as the API and hold no rules of their own. A page works without
JavaScript; the modules in `static/` only add to it.
"""
