"""Problems with numbered states and actions: planning, agents and their parts, worlds."""
