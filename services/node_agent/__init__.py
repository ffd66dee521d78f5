"""node_agent: reads one node through a probe and reports it; decides nothing."""
