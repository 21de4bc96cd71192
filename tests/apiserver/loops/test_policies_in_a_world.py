"""When a policy that was written begins to hold, and that others may come before that."""

import pytest

from actors import EventLog, RandomWalk
from controlplane.apiserver.requests.admission.policies.source import GROUP
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import Client, Resource
from controlplane.client.loops.connection import RestConfig
from controlplane.cluster import Cluster, ClusterConfig
from controlplane.cluster_config import APISERVER

CONFIG_MAPS = Resource("", "v1", "configmaps")
POLICIES = Resource(GROUP, "v1", "validatingadmissionpolicies")
BINDINGS = Resource(GROUP, "v1", "validatingadmissionpolicybindings")
MS = 1_000_000
RULE = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["configmaps"],
}
POLICY = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "p"},
    "spec": {
        "matchConstraints": {"resourceRules": [RULE]},
        "validations": [{"expression": "false"}],
    },
}
BINDING = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "b"},
    "spec": {"policyName": "p", "validationActions": ["Deny"]},
}


async def writing(ctx, codes):
    client = Client(ctx, RestConfig((APISERVER,)))
    await ctx.sleep(2_300 * MS)
    await client.create(POLICIES, POLICY)
    await client.create(BINDINGS, BINDING)
    for number in range(6):
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"c{number}", "namespace": "default"},
        }
        try:
            await client.create(CONFIG_MAPS, body)
        except ApiError as error:
            codes.append(error.code)
        else:
            codes.append(201)
        await ctx.sleep(200 * MS)


@pytest.mark.parametrize("apiservers", [1, 2])
def test_a_policy_holds_from_the_next_whole_second_on(apiservers):
    hashes = set()
    for driver in ("bare", "trio"):
        codes: list[int] = []
        made = Cluster(
            ClusterConfig(kubelets=False, controllers=False, schedulers=0, apiservers=apiservers),
            log=EventLog(),
        )
        made.user("user", writing, codes)
        run = made.world.run(driver)
        assert codes == [201, 201, 201, 201, 422, 422]
        hashes.add(run.trace_hash)
    assert len(hashes) == 1


MUTATIONS = Resource(GROUP, "v1", "mutatingadmissionpolicies")
MUTATION_BINDINGS = Resource(GROUP, "v1", "mutatingadmissionpolicybindings")
MARKING = "Object{metadata: Object.metadata{labels: {'marked': 'yes'}}}"
MUTATION = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "MutatingAdmissionPolicy",
    "metadata": {"name": "m"},
    "spec": {
        "matchConstraints": {"resourceRules": [RULE]},
        "reinvocationPolicy": "Never",
        "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": MARKING}}
        ],
    },
}
MUTATION_BINDING = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "MutatingAdmissionPolicyBinding",
    "metadata": {"name": "b"},
    "spec": {"policyName": "m"},
}


async def writing_both(ctx, server, outcomes):
    """Policies of both kinds are written to the first server, and objects to `server`."""
    first, asked = (Client(ctx, RestConfig((name,))) for name in (APISERVER, server))
    await ctx.sleep(2_300 * MS)
    await first.create(POLICIES, POLICY)
    await first.create(BINDINGS, BINDING)
    await first.create(MUTATIONS, MUTATION)
    await first.create(MUTATION_BINDINGS, MUTATION_BINDING)
    for number in range(12):
        if number in {1, 11}:
            await ctx.sleep(
                700 * MS
            )  # the first time until policies are looked at, the second past that
        metadata = {"name": f"c{number}", "namespace": "default"}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        try:
            made = await asked.create(CONFIG_MAPS, body)
        except ApiError:
            outcomes.append("refused")
        else:
            outcomes.append(made.tree["metadata"].get("labels", {}).get("marked", "passed"))


@pytest.mark.parametrize("apiservers", [1, 2])
def test_kinds_of_policies_begin_to_hold_each_for_itself_on_every_server(apiservers):
    seen = set()
    for seed in range(12):
        outcomes: list[str] = []
        config = ClusterConfig(
            kubelets=False, controllers=False, schedulers=0, apiservers=apiservers
        )
        made = Cluster(config, strategy=RandomWalk(seed), log=EventLog(keep=False))
        made.user("user", writing_both, made.apiservers[-1], outcomes)
        result = made.world.run("bare")
        assert result.verdict == "quiescent", result.reason
        assert outcomes[0] == "passed"
        assert outcomes[-1] == "refused"
        seen.update(outcomes)
    assert seen == {"passed", "yes", "refused"}
