"""Recorded traces through the front door: how would Muster have done?

Reading order: `openb` (the files and their mapping), `tracker` (what became of each pod, from
the log), `system` (what is applied and reported), `submitting`, `runner`, `report`.
Whole clusters in scaled time: `recorded` (Philly, Kalos), `fleet`, `scaled`, `waits`,
`commands`.
"""
