"""The built-in WorkloadShapes as they are read from `shapes/`. Made by `scripts/shapes`; do not edit.

Every process needs them. To read them from YAML takes a tenth of a short command, most of it in pydantic.
"""
# ruff: noqa: E501

from __future__ import annotations

from webhook.model.keys import Api
from webhook.model.projections import Resource
from webhook.model.workloads.shapes.condition import Condition
from webhook.model.workloads.shapes.count import Count, Minimum
from webhook.model.workloads.shapes.path import shape_path
from webhook.model.workloads.shapes.shape import (
    Carried,
    ChainLink,
    OperatorGroups,
    Over,
    PartName,
    PartShape,
    PodShape,
    Statement,
    Until,
    WorkloadShape,
)

SHAPES = (
    WorkloadShape(
        name="deployment",
        resource=Resource(api=Api(group="apps", version="v1", kind="Deployment"), plural="deployments"),
        versions=("v1",),
        parts=(
            PartShape(
                name=PartName(lower=False),
                templates=(shape_path("$.spec.template"),),
                pods=Count(path=shape_path("$.spec.replicas"), default=Count(number=1)),
                pod=PodShape(
                    chain=(
                        ChainLink(
                            resource=Resource(
                                api=Api(group="apps", version="v1", kind="ReplicaSet"), plural="replicasets"
                            ),
                            name="{workload}-{label:pod-template-hash}",
                            selector="rollcall.dev/scheduler",
                        ),
                    )
                ),
            ),
        ),
        by_namespace=False,
        source="kubernetes v1.37, pkg/controller/deployment",
    ),
    WorkloadShape(
        name="statefulset",
        resource=Resource(api=Api(group="apps", version="v1", kind="StatefulSet"), plural="statefulsets"),
        versions=("v1",),
        parts=(
            PartShape(
                name=PartName(lower=False),
                templates=(shape_path("$.spec.template"),),
                pods=Count(path=shape_path("$.spec.replicas"), default=Count(number=1)),
            ),
        ),
        by_namespace=False,
        refuses=(
            Statement(
                why="each pod is created when the pod before it is ready, but a gang scheduler puts no pod on a node before all pods exist",
                at=shape_path("$.spec.podManagementPolicy"),
                when=(
                    Condition(
                        path=shape_path("$.spec.podManagementPolicy"), others=("Parallel",), default="OrderedReady"
                    ),
                    Condition(path=shape_path("$.spec.replicas"), others=(0, 1), default=1),
                ),
                remedy="recreate it with podManagementPolicy Parallel",
            ),
        ),
        source="kubernetes v1.37, pkg/controller/statefulset",
    ),
    WorkloadShape(
        name="disaggregatedset",
        resource=Resource(
            api=Api(group="disaggregatedset.x-k8s.io", version="v1", kind="DisaggregatedSet"),
            plural="disaggregatedsets",
        ),
        versions=("v1",),
        parts=(
            PartShape(
                name=PartName(path=shape_path("@.name"), lower=False),
                templates=(shape_path("@.spec.leaderWorkerTemplate.workerTemplate"),),
                pods=Count(
                    path=shape_path("@.spec.replicas"),
                    default=Count(number=1),
                    times=Count(path=shape_path("@.spec.leaderWorkerTemplate.size"), default=Count(number=1)),
                ),
                each=shape_path("$.spec.roles[*]"),
            ),
        ),
        over=Over.GROUPS,
        marked=(
            shape_path("$.spec.roles[*].metadata"),
            shape_path("$.spec.roles[*].spec.leaderWorkerTemplate.leaderTemplate.metadata"),
        ),
        name_label="disaggregatedset.x-k8s.io/name",
        role_label="disaggregatedset.x-k8s.io/role",
        refuses=(
            Statement(
                why="the workers are created only when the leader is on a node, but a gang scheduler puts the leader on a node only when all pods exist",
                at=shape_path("@.metadata.annotations['leaderworkerset.sigs.k8s.io/exclusive-topology']"),
                when=(
                    Condition(
                        path=shape_path("@.metadata.annotations['leaderworkerset.sigs.k8s.io/exclusive-topology']"),
                        exists=True,
                    ),
                    Condition(path=shape_path("@.spec.leaderWorkerTemplate.size"), others=(1,), default=1),
                ),
                each=shape_path("$.spec.roles[*]"),
                remedy="remove the annotation",
            ),
            Statement(
                why="the workers are created only when the leader is ready, but a gang scheduler puts the leader on a node only when all pods exist",
                at=shape_path("@.spec.startupPolicy"),
                when=(
                    Condition(path=shape_path("@.spec.startupPolicy"), values=("LeaderReady",)),
                    Condition(path=shape_path("@.spec.leaderWorkerTemplate.size"), others=(1,), default=1),
                ),
                each=shape_path("$.spec.roles[*]"),
                remedy="set startupPolicy to LeaderCreated",
            ),
        ),
        source="kubernetes-sigs/lws v0.9, api/disaggregatedset/v1, pkg/controllers/disaggregatedset",
    ),
    WorkloadShape(
        name="dynamographdeployment",
        resource=Resource(
            api=Api(group="nvidia.com", version="v1beta1", kind="DynamoGraphDeployment"),
            plural="dynamographdeployments",
        ),
        versions=("v1beta1",),
        parts=(
            PartShape(
                name=PartName(path=shape_path("@.name"), lower=False),
                templates=(shape_path("@.podTemplate"),),
                pods=Count(
                    path=shape_path("@.replicas"),
                    default=Count(number=1),
                    times=Count(path=shape_path("@.multinode.nodeCount"), default=Count(number=1)),
                ),
                each=shape_path("$.spec.components[*]"),
                minimums=(
                    Minimum(
                        count=Count(
                            path=shape_path("@.minAvailable"),
                            times=Count(path=shape_path("@.multinode.nodeCount"), default=Count(number=1)),
                        ),
                        when=(
                            Condition(path=shape_path("@.minAvailable"), exists=True),
                            Condition(path=shape_path("@.replicas"), others=(0,), default=1),
                        ),
                    ),
                ),
            ),
        ),
        over=Over.NONE,
        leaves=(Statement(why="Dynamo's operator makes a PodCliqueSet, or another workload, which has the gangs"),),
        source="ai-dynamo/dynamo, deploy/operator/api/v1beta1, internal/controller/dgd_workload_provider.go, internal/dynamo/graph.go",
        carried=(
            Carried(
                key="kai.scheduler/queue",
                path=shape_path("$.metadata.annotations['nvidia.com/kai-scheduler-queue']"),
                default="dynamo",
                when=(
                    Condition(path=shape_path("$.metadata.annotations['nvidia.com/enable-grove']"), others=("false",)),
                ),
            ),
            Carried(
                key="scheduling.grove.io/volcano-queue",
                path=shape_path("$.metadata.annotations['nvidia.com/volcano-queue']"),
                when=(
                    Condition(path=shape_path("$.metadata.annotations['nvidia.com/enable-grove']"), others=("false",)),
                ),
            ),
        ),
    ),
    WorkloadShape(
        name="dynamographdeployment-v1alpha1",
        resource=Resource(
            api=Api(group="nvidia.com", version="v1alpha1", kind="DynamoGraphDeployment"),
            plural="dynamographdeployments",
        ),
        versions=("v1alpha1",),
        parts=(
            PartShape(
                name=PartName(of_key=True, lower=False),
                templates=(shape_path("@"),),
                pods=Count(
                    path=shape_path("@.replicas"),
                    default=Count(number=1),
                    times=Count(path=shape_path("@.multinode.nodeCount"), default=Count(number=1)),
                ),
                each=shape_path("$.spec.services[*]"),
                flat=True,
                spec=shape_path("@.extraPodSpec"),
            ),
        ),
        over=Over.NONE,
        leaves=(Statement(why="Dynamo's operator makes a PodCliqueSet, or another workload, which has the gangs"),),
        source="ai-dynamo/dynamo, deploy/operator/api/v1alpha1, internal/controller/dgd_workload_provider.go, internal/dynamo/graph.go",
        carried=(
            Carried(
                key="kai.scheduler/queue",
                path=shape_path("$.metadata.annotations['nvidia.com/kai-scheduler-queue']"),
                default="dynamo",
                when=(
                    Condition(path=shape_path("$.metadata.annotations['nvidia.com/enable-grove']"), others=("false",)),
                ),
            ),
            Carried(
                key="scheduling.grove.io/volcano-queue",
                path=shape_path("$.metadata.annotations['nvidia.com/volcano-queue']"),
                when=(
                    Condition(path=shape_path("$.metadata.annotations['nvidia.com/enable-grove']"), others=("false",)),
                ),
            ),
        ),
    ),
    WorkloadShape(
        name="pytorchjob",
        resource=Resource(api=Api(group="kubeflow.org", version="v1", kind="PyTorchJob"), plural="pytorchjobs"),
        versions=("v1",),
        parts=(
            PartShape(
                name=PartName(of_key=True),
                templates=(shape_path("@.template"),),
                pods=Count(path=shape_path("@.replicas"), default=Count(number=1)),
                each=shape_path("$.spec.pytorchReplicaSpecs[*]"),
                minimums=(
                    Minimum(
                        count=Count(path=shape_path("$.spec.runPolicy.schedulingPolicy.minAvailable")),
                        when=(
                            Condition(path=shape_path("$.spec.elasticPolicy"), exists=True),
                            Condition(path=shape_path("$.spec.runPolicy.schedulingPolicy.minAvailable"), exists=True),
                            Condition(path=shape_path("$.spec.pytorchReplicaSpecs.Master"), exists=False),
                        ),
                        elastic=True,
                    ),
                    Minimum(
                        count=Count(path=shape_path("$.spec.elasticPolicy.minReplicas")),
                        when=(
                            Condition(path=shape_path("$.spec.elasticPolicy.minReplicas"), exists=True),
                            Condition(path=shape_path("$.spec.pytorchReplicaSpecs.Master"), exists=False),
                        ),
                        elastic=True,
                    ),
                ),
                pod=PodShape(name_label="training.kubeflow.org/replica-type"),
                lowest=(
                    Minimum(
                        count=Count(path=shape_path("$.spec.elasticPolicy.minReplicas"), at_least=Count(number=1)),
                        when=(Condition(path=shape_path("$.spec.elasticPolicy.minReplicas"), exists=True),),
                    ),
                ),
            ),
        ),
        name_label="training.kubeflow.org/job-name",
        suspended=(Condition(path=shape_path("$.spec.runPolicy.suspend"), values=(True,)),),
        elsewhere=(Condition(path=shape_path("$.spec.runPolicy.managedBy"), values=("kueue.x-k8s.io/multikueue",)),),
        warns=(
            Statement(
                why="the training operator's own gang needs all replicas, and not the minReplicas of the elastic policy",
                at=shape_path("$.spec.runPolicy.schedulingPolicy"),
                when=(
                    Condition(path=shape_path("$.spec.elasticPolicy"), exists=True),
                    Condition(path=shape_path("$.spec.runPolicy.schedulingPolicy"), exists=True),
                    Condition(path=shape_path("$.spec.runPolicy.schedulingPolicy.minAvailable"), exists=False),
                ),
                remedy="set runPolicy.schedulingPolicy.minAvailable",
            ),
            Statement(
                why="the training operator makes a PodGroup of its own if it runs with --gang-scheduler-name, and with volcano it creates no pod before Volcano admits that group",
                at=shape_path("$.spec.runPolicy.schedulingPolicy"),
                when=(Condition(path=shape_path("$.spec.runPolicy.schedulingPolicy"), exists=True),),
                remedy="run the operator without that flag, or opt the workload out of Rollcall",
            ),
        ),
        source="kubeflow/training-operator release-1.9, pkg/apis/kubeflow.org/v1/pytorch_types.go, pkg/controller.v1/pytorch",
        operator=OperatorGroups(minimum=shape_path("$.spec.runPolicy.schedulingPolicy.minAvailable")),
        carried=(
            Carried(key="scheduling.volcano.sh/queue-name", path=shape_path("$.spec.runPolicy.schedulingPolicy.queue")),
        ),
    ),
    WorkloadShape(
        name="mpijob",
        resource=Resource(api=Api(group="kubeflow.org", version="v2beta1", kind="MPIJob"), plural="mpijobs"),
        versions=("v2beta1",),
        parts=(
            PartShape(
                name=PartName(literal="worker", lower=False),
                templates=(shape_path("$.spec.mpiReplicaSpecs.Worker.template"),),
                pods=Count(path=shape_path("$.spec.mpiReplicaSpecs.Worker.replicas"), default=Count(number=1)),
                when=(Condition(path=shape_path("$.spec.mpiReplicaSpecs.Worker"), exists=True),),
                pod=PodShape(labels=(("training.kubeflow.org/job-role", "worker"),)),
            ),
            PartShape(
                name=PartName(literal="launcher", lower=False),
                templates=(shape_path("$.spec.mpiReplicaSpecs.Launcher.template"),),
                pods=Count(number=1),
                when=(
                    Condition(
                        path=shape_path("$.spec.launcherCreationPolicy"),
                        others=("WaitForWorkersReady",),
                        default="AtStartup",
                    ),
                ),
                outside=True,
            ),
            PartShape(
                name=PartName(literal="launcher-later", lower=False),
                templates=(shape_path("$.spec.mpiReplicaSpecs.Launcher.template"),),
                pods=Count(number=1),
                when=(Condition(path=shape_path("$.spec.launcherCreationPolicy"), values=("WaitForWorkersReady",)),),
                outside=True,
                after=("worker",),
                until=Until.READY,
            ),
        ),
        name_label="training.kubeflow.org/job-name",
        suspended=(Condition(path=shape_path("$.spec.runPolicy.suspend"), values=(True,)),),
        elsewhere=(Condition(path=shape_path("$.spec.runPolicy.managedBy"), values=("kueue.x-k8s.io/multikueue",)),),
        refuses=(
            Statement(
                why="the launcher is one of the workers and belongs to a Job of its own, so its pod would not be in the gang of the workers",
                at=shape_path("$.spec.runLauncherAsWorker"),
                when=(
                    Condition(path=shape_path("$.spec.runLauncherAsWorker"), values=(True,)),
                    Condition(path=shape_path("$.spec.mpiReplicaSpecs.Worker"), exists=True),
                ),
                remedy="set runLauncherAsWorker to false and add a worker",
            ),
            Statement(
                why="the launcher is created when the workers are ready, but the operator's own gang counts the launcher, so both wait",
                at=shape_path("$.spec.launcherCreationPolicy"),
                when=(
                    Condition(path=shape_path("$.spec.launcherCreationPolicy"), values=("WaitForWorkersReady",)),
                    Condition(path=shape_path("$.spec.runPolicy.schedulingPolicy.minAvailable"), exists=False),
                    Condition(path=shape_path("$.spec.runPolicy.schedulingPolicy"), exists=True),
                ),
                remedy="set runPolicy.schedulingPolicy.minAvailable to the number of workers",
            ),
        ),
        warns=(
            Statement(
                why="mpi-operator makes a PodGroup of its own if it runs with --gang-scheduling, and overwrites the schedulerName of all pods",
                at=shape_path("$.spec.runPolicy.schedulingPolicy"),
                when=(Condition(path=shape_path("$.spec.runPolicy.schedulingPolicy"), exists=True),),
                remedy="run the operator without that flag, or opt the workload out of Rollcall",
            ),
        ),
        source="kubeflow/mpi-operator v0.8, pkg/controller/mpi_job_controller.go",
        operator=OperatorGroups(minimum=shape_path("$.spec.runPolicy.schedulingPolicy.minAvailable")),
        carried=(
            Carried(key="scheduling.volcano.sh/queue-name", path=shape_path("$.spec.runPolicy.schedulingPolicy.queue")),
        ),
    ),
    WorkloadShape(
        name="raycluster",
        resource=Resource(api=Api(group="ray.io", version="v1", kind="RayCluster"), plural="rayclusters"),
        versions=("v1", "v1alpha1"),
        parts=(
            PartShape(
                name=PartName(literal="headgroup", lower=False),
                templates=(shape_path("$.spec.headGroupSpec.template"),),
                pods=Count(number=1),
                pod=PodShape(labels=(("ray.io/group", "headgroup"),)),
            ),
            PartShape(
                name=PartName(path=shape_path("@.groupName"), lower=False),
                templates=(shape_path("@.template"),),
                pods=Count(
                    path=shape_path("@.replicas"),
                    default=Count(path=shape_path("@.minReplicas"), default=Count()),
                    at_least=Count(path=shape_path("@.minReplicas"), default=Count()),
                    at_most=Count(path=shape_path("@.maxReplicas"), default=Count(number=2147483647)),
                    times=Count(path=shape_path("@.numOfHosts"), default=Count(number=1)),
                    zero_if=(Condition(path=shape_path("@.suspend"), values=(True,)),),
                ),
                each=shape_path("$.spec.workerGroupSpecs[*]"),
                minimums=(
                    Minimum(
                        count=Count(
                            path=shape_path("@.minReplicas"),
                            default=Count(),
                            times=Count(path=shape_path("@.numOfHosts"), default=Count(number=1)),
                            zero_if=(Condition(path=shape_path("@.suspend"), values=(True,)),),
                        ),
                        when=(Condition(path=shape_path("$.spec.enableInTreeAutoscaling"), values=(True,)),),
                        elastic=True,
                    ),
                ),
                pod=PodShape(name_label="ray.io/group"),
            ),
        ),
        name_label="ray.io/cluster",
        suspended=(Condition(path=shape_path("$.spec.suspend"), values=(True,)),),
        elsewhere=(Condition(path=shape_path("$.spec.managedBy"), values=("kueue.x-k8s.io/multikueue",)),),
        warns=(
            Statement(
                why="with --batch-scheduler=scheduler-plugins KubeRay makes a PodGroup of its own because of the label, whatever its value, and the minimum does not follow the number of workers",
                at=shape_path("$.metadata.labels['ray.io/gang-scheduling-enabled']"),
                when=(Condition(path=shape_path("$.metadata.labels['ray.io/gang-scheduling-enabled']"), exists=True),),
                remedy="remove the label, or opt the workload out of Rollcall",
            ),
            Statement(
                why="KubeRay makes a PodGroup of its own if it runs with --batch-scheduler=volcano, and moves all pods to Volcano",
                at=shape_path("$.metadata.labels['volcano.sh/queue-name']"),
                when=(Condition(path=shape_path("$.metadata.labels['volcano.sh/queue-name']"), exists=True),),
                remedy="name the queue in the annotation scheduling.volcano.sh/queue-name instead of the label, or opt the workload out of Rollcall",
            ),
        ),
        source="ray-project/kuberay v1.7.0, controllers/ray/common/pod.go, controllers/ray/utils/util.go",
        carried=(
            Carried(
                key="scheduling.volcano.sh/queue-name", path=shape_path("$.metadata.labels['volcano.sh/queue-name']")
            ),
        ),
    ),
    WorkloadShape(
        name="rayjob",
        resource=Resource(api=Api(group="ray.io", version="v1", kind="RayJob"), plural="rayjobs"),
        versions=("v1", "v1alpha1"),
        parts=(
            PartShape(
                name=PartName(literal="headgroup", lower=False),
                templates=(shape_path("$.spec.rayClusterSpec.headGroupSpec.template"),),
                pods=Count(number=1),
                when=(Condition(path=shape_path("$.spec.rayClusterSpec"), exists=True),),
            ),
            PartShape(
                name=PartName(path=shape_path("@.groupName"), lower=False),
                templates=(shape_path("@.template"),),
                pods=Count(
                    path=shape_path("@.replicas"),
                    default=Count(path=shape_path("@.minReplicas"), default=Count()),
                    at_least=Count(path=shape_path("@.minReplicas"), default=Count()),
                    at_most=Count(path=shape_path("@.maxReplicas"), default=Count(number=2147483647)),
                    times=Count(path=shape_path("@.numOfHosts"), default=Count(number=1)),
                    zero_if=(Condition(path=shape_path("@.suspend"), values=(True,)),),
                ),
                each=shape_path("$.spec.rayClusterSpec.workerGroupSpecs[*]"),
                minimums=(
                    Minimum(
                        count=Count(
                            path=shape_path("@.minReplicas"),
                            default=Count(),
                            times=Count(path=shape_path("@.numOfHosts"), default=Count(number=1)),
                            zero_if=(Condition(path=shape_path("@.suspend"), values=(True,)),),
                        ),
                        when=(
                            Condition(path=shape_path("$.spec.rayClusterSpec.enableInTreeAutoscaling"), values=(True,)),
                        ),
                        elastic=True,
                    ),
                ),
            ),
            PartShape(
                name=PartName(literal="submitter", lower=False),
                templates=(shape_path("$.spec.submitterPodTemplate"),),
                pods=Count(number=1),
                when=(
                    Condition(path=shape_path("$.spec.submissionMode"), values=("K8sJobMode",), default="K8sJobMode"),
                ),
                outside=True,
                after=("headgroup",),
                until=Until.READY,
            ),
        ),
        left_to="RayCluster",
        suspended=(Condition(path=shape_path("$.spec.suspend"), values=(True,)),),
        elsewhere=(Condition(path=shape_path("$.spec.managedBy"), values=("kueue.x-k8s.io/multikueue",)),),
        leaves=(
            Statement(
                why="its pods are those of a RayCluster that exists already",
                at=shape_path("$.spec.clusterSelector"),
                when=(Condition(path=shape_path("$.spec.clusterSelector"), exists=True),),
            ),
        ),
        warns=(
            Statement(
                why="with --batch-scheduler=scheduler-plugins KubeRay makes a PodGroup of its own because of the label, whatever its value, and the minimum does not follow the number of workers",
                at=shape_path("$.metadata.labels['ray.io/gang-scheduling-enabled']"),
                when=(Condition(path=shape_path("$.metadata.labels['ray.io/gang-scheduling-enabled']"), exists=True),),
                remedy="remove the label, or opt the workload out of Rollcall",
            ),
            Statement(
                why="KubeRay makes a PodGroup of its own if it runs with --batch-scheduler=volcano, and moves all pods to Volcano",
                at=shape_path("$.metadata.labels['volcano.sh/queue-name']"),
                when=(Condition(path=shape_path("$.metadata.labels['volcano.sh/queue-name']"), exists=True),),
                remedy="name the queue in the annotation scheduling.volcano.sh/queue-name instead of the label, or opt the workload out of Rollcall",
            ),
        ),
        source="ray-project/kuberay v1.7.0, controllers/ray/rayjob_controller.go",
        operator=OperatorGroups(
            finished=(Condition(path=shape_path("$.status.jobDeploymentStatus"), values=("Complete", "Failed")),)
        ),
        carried=(
            Carried(
                key="scheduling.volcano.sh/queue-name", path=shape_path("$.metadata.labels['volcano.sh/queue-name']")
            ),
        ),
    ),
    WorkloadShape(
        name="rayservice",
        resource=Resource(api=Api(group="ray.io", version="v1", kind="RayService"), plural="rayservices"),
        versions=("v1", "v1alpha1"),
        parts=(
            PartShape(
                name=PartName(literal="headgroup", lower=False),
                templates=(shape_path("$.spec.rayClusterConfig.headGroupSpec.template"),),
                pods=Count(number=1),
            ),
            PartShape(
                name=PartName(path=shape_path("@.groupName"), lower=False),
                templates=(shape_path("@.template"),),
                pods=Count(
                    path=shape_path("@.replicas"),
                    default=Count(path=shape_path("@.minReplicas"), default=Count()),
                    at_least=Count(path=shape_path("@.minReplicas"), default=Count()),
                    at_most=Count(path=shape_path("@.maxReplicas"), default=Count(number=2147483647)),
                    times=Count(path=shape_path("@.numOfHosts"), default=Count(number=1)),
                    zero_if=(Condition(path=shape_path("@.suspend"), values=(True,)),),
                ),
                each=shape_path("$.spec.rayClusterConfig.workerGroupSpecs[*]"),
                minimums=(
                    Minimum(
                        count=Count(
                            path=shape_path("@.minReplicas"),
                            default=Count(),
                            times=Count(path=shape_path("@.numOfHosts"), default=Count(number=1)),
                            zero_if=(Condition(path=shape_path("@.suspend"), values=(True,)),),
                        ),
                        when=(
                            Condition(
                                path=shape_path("$.spec.rayClusterConfig.enableInTreeAutoscaling"), values=(True,)
                            ),
                        ),
                        elastic=True,
                    ),
                ),
            ),
        ),
        left_to="RayCluster",
        suspended=(Condition(path=shape_path("$.spec.suspend"), values=(True,)),),
        warns=(
            Statement(
                why="with --batch-scheduler=scheduler-plugins KubeRay makes a PodGroup of its own because of the label, whatever its value, and the minimum does not follow the number of workers",
                at=shape_path("$.metadata.labels['ray.io/gang-scheduling-enabled']"),
                when=(Condition(path=shape_path("$.metadata.labels['ray.io/gang-scheduling-enabled']"), exists=True),),
                remedy="remove the label, or opt the workload out of Rollcall",
            ),
            Statement(
                why="KubeRay makes a PodGroup of its own if it runs with --batch-scheduler=volcano, and moves all pods to Volcano",
                at=shape_path("$.metadata.labels['volcano.sh/queue-name']"),
                when=(Condition(path=shape_path("$.metadata.labels['volcano.sh/queue-name']"), exists=True),),
                remedy="name the queue in the annotation scheduling.volcano.sh/queue-name instead of the label, or opt the workload out of Rollcall",
            ),
        ),
        source="ray-project/kuberay v1.7.0, controllers/ray/rayservice_controller.go",
        carried=(
            Carried(
                key="scheduling.volcano.sh/queue-name", path=shape_path("$.metadata.labels['volcano.sh/queue-name']")
            ),
        ),
    ),
    WorkloadShape(
        name="sparkapplication",
        resource=Resource(
            api=Api(group="sparkoperator.k8s.io", version="v1beta2", kind="SparkApplication"),
            plural="sparkapplications",
        ),
        versions=("v1beta2",),
        parts=(
            PartShape(
                name=PartName(literal="driver", lower=False),
                templates=(shape_path("$.spec.driver"),),
                pods=Count(number=1),
                when=(Condition(path=shape_path("$.spec.mode"), others=("client",), default="cluster"),),
                flat=True,
                pod=PodShape(labels=(("spark-role", "driver"),)),
            ),
            PartShape(
                name=PartName(literal="executor", lower=False),
                templates=(shape_path("$.spec.executor"),),
                pods=Count(path=shape_path("$.spec.executor.instances"), default=Count(number=2)),
                flat=True,
                pod=PodShape(
                    chain=(
                        ChainLink(
                            resource=Resource(api=Api(group="", version="v1", kind="Pod"), plural="pods"),
                            name="{workload}-driver",
                        ),
                    ),
                    labels=(("spark-role", "executor"),),
                ),
                after=("driver",),
                until=Until.RUNNING,
            ),
        ),
        over=Over.PART,
        name_label="sparkoperator.k8s.io/app-name",
        suspended=(Condition(path=shape_path("$.spec.suspend"), values=(True,)),),
        leaves=(
            Statement(
                why="Spark's operator makes a PodGroup, because batchScheduler is set",
                at=shape_path("$.spec.batchScheduler"),
                when=(Condition(path=shape_path("$.spec.batchScheduler"), values=("volcano",)),),
                system="Volcano",
            ),
            Statement(
                why="Spark's operator asks YuniKorn for a gang, because batchScheduler is set",
                at=shape_path("$.spec.batchScheduler"),
                when=(Condition(path=shape_path("$.spec.batchScheduler"), values=("yunikorn",)),),
                system="YuniKorn",
            ),
            Statement(
                why="Spark's operator makes a PodGroup, because batchScheduler is set",
                at=shape_path("$.spec.batchScheduler"),
                when=(Condition(path=shape_path("$.spec.batchScheduler"), exists=True),),
            ),
        ),
        refuses=(
            Statement(
                why="Spark chooses the number of executors while it runs, so the gang of the executors would wait for pods that are never created",
                at=shape_path("$.spec.dynamicAllocation.enabled"),
                when=(Condition(path=shape_path("$.spec.dynamicAllocation.enabled"), values=(True,)),),
                remedy="set it to false, or opt out",
            ),
        ),
        warns=(
            Statement(
                why="the PodGroup of Spark's operator has minMember 1, so each executor starts without the others",
                at=shape_path("$.spec.batchScheduler"),
                when=(
                    Condition(path=shape_path("$.spec.batchScheduler"), values=("volcano",)),
                    Condition(path=shape_path("$.spec.executor.instances"), others=(0, 1), default=2),
                    Condition(path=shape_path("$.spec.dynamicAllocation.enabled"), others=(True,), default=False),
                ),
                remedy="remove batchScheduler, and Rollcall makes a gang of the executors; name their queue in the annotation scheduling.volcano.sh/queue-name",
            ),
            Statement(
                why="the PodGroup of Spark's operator has minMember 1, so each executor starts without the others",
                at=shape_path("$.spec.batchScheduler"),
                when=(
                    Condition(path=shape_path("$.spec.batchScheduler"), exists=True),
                    Condition(path=shape_path("$.spec.batchScheduler"), others=("volcano", "yunikorn")),
                    Condition(path=shape_path("$.spec.executor.instances"), others=(0, 1), default=2),
                    Condition(path=shape_path("$.spec.dynamicAllocation.enabled"), others=(True,), default=False),
                ),
                remedy="remove batchScheduler, and Rollcall makes a gang of the executors",
            ),
        ),
        source="kubeflow/spark-operator v2.5, api/v1beta2/sparkapplication_types.go, internal/controller/sparkapplication",
        operator=OperatorGroups(scheduler=shape_path("$.spec.batchScheduler")),
        carried=(
            Carried(
                key="scheduling.volcano.sh/queue-name",
                path=shape_path("$.spec.batchSchedulerOptions.queue"),
                default="default",
                when=(Condition(path=shape_path("$.spec.batchScheduler"), values=("volcano",)),),
            ),
        ),
    ),
    WorkloadShape(
        name="volcano-job",
        resource=Resource(api=Api(group="batch.volcano.sh", version="v1alpha1", kind="Job"), plural="jobs"),
        versions=("v1alpha1",),
        parts=(
            PartShape(
                name=PartName(path=shape_path("@.name"), lower=False),
                templates=(shape_path("@.template"),),
                pods=Count(path=shape_path("@.replicas"), default=Count()),
                each=shape_path("$.spec.tasks[*]"),
            ),
        ),
        over=Over.NONE,
        leaves=(Statement(why="Volcano's controller makes its PodGroup", system="Volcano"),),
        refuses=(
            Statement(
                why="another scheduler places the pods of this task, but without minAvailable the PodGroup waits for all tasks",
                at=shape_path("@.template.spec.schedulerName"),
                when=(
                    Condition(path=shape_path("@.template.spec.schedulerName"), values=("default-scheduler",)),
                    Condition(
                        path=shape_path("$.spec.schedulerName"), others=("default-scheduler",), default="volcano"
                    ),
                    Condition(path=shape_path("$.spec.minAvailable"), exists=False),
                ),
                each=shape_path("$.spec.tasks[*]"),
                remedy="remove schedulerName from the template of the task",
            ),
            Statement(
                why="the task is created when the tasks before it run, but without minAvailable the PodGroup waits for all tasks",
                at=shape_path("@.dependsOn"),
                when=(
                    Condition(path=shape_path("@.dependsOn"), exists=True),
                    Condition(path=shape_path("$.spec.minAvailable"), exists=False),
                ),
                each=shape_path("$.spec.tasks[*]"),
                remedy="set spec.minAvailable to the pods of the tasks that start first",
            ),
        ),
        source="volcano-sh/volcano v1.15, pkg/controllers/job",
        operator=OperatorGroups(
            scheduler=shape_path("$.spec.schedulerName"), minimum=shape_path("$.spec.minAvailable")
        ),
        carried=(Carried(key="scheduling.volcano.sh/queue-name", path=shape_path("$.spec.queue"), default="default"),),
    ),
)
