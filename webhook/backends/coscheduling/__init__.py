"""scheduler-plugins: a PodGang becomes one PodGroup that counts pods, and its pods name the PodGroup by a label.

Facts here come from kubernetes-sigs/scheduler-plugins at v0.34.7 (pkg/coscheduling, apis/scheduling/v1alpha1), and from
runs of its scheduler on a real API server ("seen"), unless a docstring says otherwise. The plugin Coscheduling lets a
pod go to its node only when `minMember` pods of its group have a node. It does not matter which pods.
"""
