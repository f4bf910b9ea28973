"""Help from the nodes of a Dask cluster with releases of large contents.

    worker → asking → client → Dask's scheduler → task, on a node → helper

Dask only says where helpers run. A worker that offers shares of a release (`usecases.shares`) names
its job to the scheduler; a node that is given this task starts a helper, which takes shares from
the database as an idle worker does. No content, key or sum goes through Dask, nothing comes back,
and nobody waits for it. Decision 43 says who is trusted with what.
"""
