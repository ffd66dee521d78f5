"""`make bench-kube`: Muster on a real API server, beside that server's limit and kube-scheduler.

One cluster of 1,500 simulated nodes with eight GPUs each, of which 1,000 give whole GPUs (half of
them by a device plugin, half by claims). All parts in one run, everybody as a service account; on
a machine with other work compare inside one run alone.

    limit      pods created, then bound, 64 requests at once, by a client that does nothing else
    scheduler  the same pods, created in the same way, bound by kube-scheduler 1.37
    binder     pods in gangs of eight by the binder's actuator; one gang of 256, with and without
               devices that are pinned
    scheduler-gpus  pods with a GPU each, by kube-scheduler
    native     the same pods, which name Muster as their scheduler
    jobs       Indexed Jobs of eight pods with a GPU each
    reasons    how soon a pod says why it waits, while many others wait and were told so
    waiting    writes a second at the API server while many pods wait, and their reason changes
    whole      gangs of eight and single pods with a GPU each, until all GPUs are taken, from their
               submission to Kafka to all bound as the gateway shows it
"""
