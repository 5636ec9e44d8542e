"""The objective, the schedule, the compiled update, the loop around it, and its reports."""
