"""A namespace with native pods as their owners make them, and what is seen of them."""

from __future__ import annotations

import time

from tests.kube.malformed_pods import CONTAINER

SECONDS = 60
POD = {"terminationGracePeriodSeconds": 1, "containers": [CONTAINER]}


class Place:
    """A namespace, by an administrator."""

    def __init__(self, kube, namespace, scheduler):
        self._kube, self.namespace, self._scheduler = kube, namespace, scheduler

    def call(self, method, path, body=None):
        with self._kube.client() as admin:
            return admin.demand(method, path.format(self.namespace), body)

    def spec(self, changes=None):
        """Of a pod for this Muster."""
        return {"schedulerName": self._scheduler, **POD, **(changes or {})}

    def pod(self, name, spec=None, **metadata):
        body = {"metadata": {"name": name, **metadata}, "spec": self.spec(spec)}
        self.call("POST", "/api/v1/namespaces/{}/pods", body)

    def job(self, name, spec, *, annotations=None, pod=None):
        own = {**self.spec(pod), "restartPolicy": "Never"}
        template = {"metadata": {"annotations": annotations or {}}, "spec": own}
        self.jobs(name, {**spec, "template": template})

    def jobs(self, name, spec):
        body = {"metadata": {"name": name}, "spec": spec}
        self.call("POST", "/apis/batch/v1/namespaces/{}/jobs", body)

    def pods(self):
        return self.call("GET", "/api/v1/namespaces/{}/pods")["items"]

    def events(self, name):
        found = self.call("GET", "/apis/events.k8s.io/v1/namespaces/{}/events")["items"]
        return [(one["reason"], one["note"]) for one in found if one["regarding"]["name"] == name]

    def all_events(self):
        """Notes by the name of the pod."""
        notes: dict[str, list[str]] = {}
        found = self.call("GET", "/apis/events.k8s.io/v1/namespaces/{}/events")["items"]
        for one in (one for one in found if one["regarding"]["kind"] == "Pod"):
            notes.setdefault(one["regarding"]["name"], []).append(one["note"])
        return notes

    def shown(self):
        jobs = self.call("GET", "/apis/batch/v1/namespaces/{}/jobs")["items"]
        return [_told(one) for one in self.pods()], [one["status"] for one in jobs]

    def until(self, what, condition):
        deadline = time.monotonic() + SECONDS
        while not (found := condition()):
            assert time.monotonic() < deadline, (what, self.all_events(), self.shown())
            time.sleep(0.2)
        return found


def _told(pod):
    return pod["metadata"]["name"], pod["spec"].get("nodeName"), pod["status"]


def condition_of(found, name):
    """A condition of an object by its type; None: it has none."""
    conditions = found.get("status", {}).get("conditions", ())
    return next((one for one in conditions if one["type"] == name), None)


def running(pods):
    return [one for one in pods if one["status"].get("phase") == "Running"]


def started(pods):
    """Those that run, and those that have run already."""
    return [one for one in pods if one["status"].get("phase") in ("Running", "Succeeded")]


def names_of(pods):
    return {one["metadata"]["name"] for one in pods}


def bound(pods):
    return [one for one in pods if one["spec"].get("nodeName")]
