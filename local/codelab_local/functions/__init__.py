"""Lambda: functions as processes, their events, their logs, and what invokes them."""
