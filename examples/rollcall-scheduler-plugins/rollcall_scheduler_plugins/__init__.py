"""The coscheduling of scheduler-plugins as a backend of Rollcall: one PodGroup a PodGang, named by a pod label."""
