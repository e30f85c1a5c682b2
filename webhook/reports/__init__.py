"""The formats of a report, one file each, without I/O: `webhook.offline.report` in, text or plain JSON values out."""
