"""The CronJob controller: Jobs that are made when their time has come."""
