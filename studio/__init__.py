"""LEO Studio's page: a session that holds the model, figures as functions, one file per tab."""
