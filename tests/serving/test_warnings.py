"""Clients are warned of kinds on which nothing in the served cluster acts."""

from tests.apiserver.http.session import served

INGRESS = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "IngressClass",
    "metadata": {"name": "a"},
    "spec": {"controller": "example.com/a"},
}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "a"},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}},
}  # fmt: skip
JOBS = "/apis/batch/v1/namespaces/default/jobs"


async def test_creating_what_nothing_acts_on_warns_and_the_session_goes_on():
    async with served() as session:
        classes = "/apis/networking.k8s.io/v1/ingressclasses"
        made = await session.ask("POST", classes, INGRESS)
        assert made.code == 201
        assert (
            "nothing in this emulated control plane acts on IngressClass" in made.headers["warning"]
        )
        assert "warning" not in (await session.ask("GET", f"{classes}/a")).headers
        made = await session.ask("POST", JOBS, JOB)  # this session has no controller for jobs
        assert "acts on Job.batch objects" in made.headers["warning"]
        while session.serving.world.steps < 1100:  # the rooms are looked into after 1024 steps
            assert (await session.ask("GET", "/healthz")).body == b"ok"


async def test_a_kind_with_its_controller_warns_of_nothing():
    async with served(controllers="*") as session:
        made = await session.ask("POST", JOBS, JOB)
        assert (made.code, made.headers.get("warning")) == (201, None)
