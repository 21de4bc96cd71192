"""Pod Security admission: what the standards say of pods, version by version, and what follows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.requests.admission.pod_security.checks import failures, shown
from controlplane.apiserver.requests.admission.pod_security.levels import (
    LATEST,
    Level,
    standards_of,
)
from tests.apiserver.world import World

NEWEST = 36
P = "pod-security.kubernetes.io/"
GOOD = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "c",
            "image": "i",
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
        }
    ],
}
PLAIN = {"containers": [{"name": "nginx", "image": "nginx"}]}
RESTRICTED = (
    'allowPrivilegeEscalation != false (container "nginx" must set '
    'securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "nginx" '
    'must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container '
    '"nginx" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "nginx" '
    'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
)


def said(level, spec, minor=LATEST, notes=None):
    return shown(failures(Level(level, minor), {"annotations": notes or {}}, spec, NEWEST))


def containers(*contexts, **spec):
    return {
        **spec,
        "containers": [
            {"name": f"c{i}", "image": "i", "securityContext": context}
            for i, context in enumerate(contexts)
        ],
    }


def test_an_ordinary_pod_is_baseline_and_not_restricted():
    assert said("baseline", PLAIN) == ""
    assert said("restricted", PLAIN) == RESTRICTED
    assert said("restricted", GOOD) == "" and said("privileged", PLAIN) == ""


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            containers({"privileged": True}, {}, {"privileged": True}),
            'privileged (containers "c0", "c2" must not set securityContext.privileged=true)',
        ),
        (
            {**PLAIN, "hostNetwork": True, "hostIPC": True},
            "host namespaces (hostNetwork=true, hostIPC=true)",
        ),
        (
            {**PLAIN, "volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
            'hostPath volumes (volume "v")',
        ),
        (
            {"containers": [{"name": "c", "ports": [{"hostPort": 90}, {"hostPort": 8}]}]},
            'hostPort (container "c" uses hostPorts 8, 90)',
        ),
        (
            containers({"capabilities": {"add": ["NET_ADMIN", "CHOWN", "BPF"]}}),
            'non-default capabilities (container "c0" must not include "BPF", "NET_ADMIN" in '
            "securityContext.capabilities.add)",
        ),
        (
            containers({"procMount": "Unmasked"}),
            'procMount (container "c0" must not set securityContext.procMount to "Unmasked")',
        ),
        (
            containers(
                {"appArmorProfile": {"type": "Unconfined"}},
                securityContext={"appArmorProfile": {"type": "Unconfined"}},
            ),
            'forbidden AppArmor profile (pod and container "c0" must not set AppArmor profile type to '
            '"Unconfined")',
        ),
        (
            containers(
                {"seLinuxOptions": {"type": "x", "user": "u"}}, {"seLinuxOptions": {"role": "r"}}
            ),
            'seLinuxOptions (containers "c0", "c1" set forbidden securityContext.seLinuxOptions: type "x"; '
            "user may not be set; role may not be set)",
        ),
        (
            containers({}, securityContext={"seccompProfile": {"type": "Unconfined"}}),
            'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
        ),
        (
            containers(
                {}, securityContext={"sysctls": [{"name": "a"}, {"name": "net.ipv4.tcp_rmem"}]}
            ),
            "forbidden sysctls (a)",
        ),
        (
            containers({"windowsOptions": {"hostProcess": True}}),
            'hostProcess (container "c0" must not set securityContext.windowsOptions.hostProcess=true)',
        ),
        (
            {"containers": [{"name": "c", "livenessProbe": {"httpGet": {"host": "h"}}}]},
            'probe or lifecycle host (container "c" uses probe or lifecycle host "h")',
        ),
    ],
)
def test_baseline_says_what_is_wrong(spec, text):
    assert said("baseline", spec) == text
    assert said("privileged", spec) == ""


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"runAsUser": 0}, 'runAsUser=0 (container "c" must not set runAsUser=0)'),
        (
            {"runAsNonRoot": False},
            'runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false)',
        ),
        (
            {"capabilities": {"drop": ["ALL"], "add": ["CHOWN", "NET_BIND_SERVICE"]}},
            'unrestricted capabilities (container "c" must not include "CHOWN" in '
            "securityContext.capabilities.add)",
        ),
        (
            {"seccompProfile": {"type": "Unconfined"}},
            'seccompProfile (container "c" must not set securityContext.seccompProfile.type to '
            '"Unconfined")',
        ),
    ],
)
def test_restricted_says_what_is_wrong(change, text):
    container = GOOD["containers"][0]
    context = {**container["securityContext"], **change}
    spec = {**GOOD, "containers": [{**container, "securityContext": context}]}
    assert said("restricted", spec) == text


def test_restricted_volumes_take_the_place_of_host_paths():
    volumes = [
        {"name": "a", "hostPath": {"path": "/"}},
        {"name": "b", "nfs": {}},
        {"name": "c", "emptyDir": {}},
    ]
    assert said("restricted", {**GOOD, "volumes": volumes}) == (
        'restricted volume types (volumes "a", "b" use restricted volume types "hostPath", "nfs")'
    )


@pytest.mark.parametrize(
    ("level", "minor", "spec", "fails"),
    [
        ("restricted", 7, PLAIN, 1),
        ("restricted", 8, PLAIN, 2),
        ("restricted", 18, PLAIN, 2),
        ("restricted", 19, PLAIN, 3),
        ("restricted", 22, PLAIN, 4),
        (
            "restricted",
            24,
            {**GOOD, "os": {"name": "windows"}, "containers": PLAIN["containers"]},
            2,
        ),
        (
            "restricted",
            25,
            {**GOOD, "os": {"name": "windows"}, "containers": PLAIN["containers"]},
            0,
        ),
        (
            "baseline",
            33,
            {"containers": [{"name": "c", "readinessProbe": {"tcpSocket": {"host": "h"}}}]},
            0,
        ),
        (
            "baseline",
            34,
            {"containers": [{"name": "c", "readinessProbe": {"tcpSocket": {"host": "h"}}}]},
            1,
        ),
        ("baseline", 34, containers({"procMount": "Unmasked"}, hostUsers=False), 1),
        ("baseline", 35, containers({"procMount": "Unmasked"}, hostUsers=False), 0),
        (
            "baseline",
            26,
            containers(
                {}, securityContext={"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports"}]}
            ),
            1,
        ),
        (
            "baseline",
            27,
            containers(
                {}, securityContext={"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports"}]}
            ),
            0,
        ),
        ("baseline", 30, containers({"seLinuxOptions": {"type": "container_engine_t"}}), 1),
        ("baseline", 31, containers({"seLinuxOptions": {"type": "container_engine_t"}}), 0),
    ],
)
def test_standards_are_those_of_their_version(level, minor, spec, fails):
    assert len(failures(Level(level, minor), {}, spec, NEWEST)) == fails
    assert len(failures(Level(level), {}, spec, minor)) == fails  # a server of that release


CONTEXTS = st.fixed_dictionaries(
    {},
    optional={
        "privileged": st.booleans(),
        "runAsNonRoot": st.booleans(),
        "runAsUser": st.integers(0, 2),
        "allowPrivilegeEscalation": st.booleans(),
        "procMount": st.sampled_from(["Default", "Unmasked"]),
        "capabilities": st.fixed_dictionaries(
            {},
            optional={
                "add": st.lists(st.sampled_from(["CHOWN", "BPF", "NET_BIND_SERVICE"])),
                "drop": st.lists(st.sampled_from(["ALL", "CHOWN"])),
            },
        ),
        "seccompProfile": st.fixed_dictionaries(
            {"type": st.sampled_from(["Unconfined", "Localhost"])}
        ),
    },
)


@given(st.lists(CONTEXTS, min_size=1, max_size=3), CONTEXTS, st.integers(0, 40))
def test_what_is_restricted_is_baseline(contexts, pod, minor):
    spec = containers(*contexts, securityContext=pod)
    if said("baseline", spec, minor):
        assert said("restricted", spec, minor)


def test_annotations_of_old_are_looked_at():
    notes = {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}
    assert said("baseline", PLAIN, notes=notes) == (
        "forbidden AppArmor profile (annotation must not set AppArmor profile type to "
        '"container.apparmor.security.beta.kubernetes.io/c="unconfined"")'
    )
    notes = {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}
    assert said("baseline", PLAIN, 18, notes) == (
        'seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")'
    )


@pytest.mark.parametrize(
    ("labels", "levels"),
    [
        ({}, ["privileged:latest"] * 3),
        ({f"{P}enforce": "baseline"}, ["baseline:latest", "privileged:latest", "baseline:latest"]),
        (
            {f"{P}enforce": "restricted", f"{P}enforce-version": "v1.30", f"{P}warn": "baseline"},
            ["restricted:v1.30", "privileged:latest", "baseline:latest"],
        ),
        (
            {f"{P}enforce": "baseline", f"{P}enforce-version": "v1.9"},
            ["baseline:v1.9", "privileged:latest", "baseline:v1.9"],
        ),
        (
            {f"{P}enforce": "bad", f"{P}audit": "bad"},
            ["restricted:latest", "privileged:latest", "privileged:latest"],
        ),
    ],
)
def test_labels_are_levels(labels, levels):
    standards, _ = standards_of(labels)
    assert [str(standards.enforce), str(standards.audit), str(standards.warn)] == levels


# -- on a server ---------------------------------------------------------------------------------


def world(**labels):
    made = World()
    labels = {f"{P}{key.replace('_', '-')}": value for key, value in labels.items()}
    made.patch("namespaces", "default", {"metadata": {"labels": labels}}, namespace="")
    return made


def pod(spec=None, name="p"):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec or PLAIN}


def deployment(spec):
    meta = {"labels": {"a": "b"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": meta, "spec": spec},
        },
    }


def test_a_pod_is_refused_in_upstreams_words_and_its_deployment_warned_of():
    made = world(enforce="restricted")
    refused = made.create("pods", pod())
    assert refused.code == 403
    assert (
        refused.message
        == f'pods "p" is forbidden: violates PodSecurity "restricted:latest": {RESTRICTED}'
    )
    assert made.create("pods", pod(GOOD)).code == 201
    warned = made.create("deployments", deployment(PLAIN), group="apps")
    assert warned.code == 201
    assert warned.warnings == [f'would violate PodSecurity "restricted:latest": {RESTRICTED}']


def test_what_is_audited_is_noted_and_what_is_warned_of_told():
    made = world(enforce="baseline", audit="restricted", warn="restricted", warn_version="v1.20")
    answer = made.create("pods", pod())
    assert answer.code == 201
    assert answer.audit[f"{P}enforce-policy"] == "baseline:latest"
    assert answer.audit[f"{P}audit-violations"] == (
        f'would violate PodSecurity "restricted:latest": {RESTRICTED}'
    )
    (warning,) = answer.warnings
    assert warning.startswith('would violate PodSecurity "restricted:v1.20": ')
    assert "capabilities" not in warning


def test_updates_that_change_nothing_of_concern_pass():
    made = World()
    made.create("pods", pod())
    labels = {f"{P}enforce": "restricted"}
    changed = made.patch("namespaces", "default", {"metadata": {"labels": labels}}, namespace="")
    assert changed.warnings == [
        'existing pods in namespace "default" violate the new PodSecurity enforce level '
        '"restricted:latest"',
        "p: allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, "
        "seccompProfile",
    ]
    assert made.patch("pods", "p", {"metadata": {"labels": {"a": "b"}}}).code == 200
    image = {"spec": {"containers": [{"name": "nginx", "image": "other"}]}}
    strategic = "application/strategic-merge-patch+json"
    assert made.patch("pods", "p", image, media=strategic).code == 403
    assert made.patch("pods", "p", {"status": {"phase": "Running"}}, sub="status").code == 200


def test_labels_that_are_wrong_are_refused_once():
    made = World()
    labels = {f"{P}enforce": "strict", f"{P}warn-version": "1.2"}
    refused = made.patch("namespaces", "default", {"metadata": {"labels": labels}}, namespace="")
    assert refused.code == 422
    assert refused.message == (
        'Namespace "default" is invalid: ['
        f'metadata.labels[{P}enforce]: Invalid value: "strict": must be one of privileged, baseline, '
        f'restricted, metadata.labels[{P}warn-version]: Invalid value: "1.2": must be "latest" or '
        '"v1.x"]'
    )
