"""What several backends need: the helper's protocol and client, the semantics of exec, the host process."""
