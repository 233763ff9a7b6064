package action

// evidenceErrors are errors of uploaded evidence, environment variables and
// setups.
func evidenceErrors() Area {
	return Area{"Evidence, variables and setups", []Declaration{
		{"file_too_large", ErrTooLarge, "A file can have at most %d MiB. Send a smaller one.", "", ""},
		{"invalid_file", ErrInvalid, "Send the size of the file in bytes and its SHA-256 in lowercase hex.", "", ""},
		{"wrong_size", ErrInvalid, "The file does not have the announced %d bytes. Send it again.", "", ""},
		{"wrong_digest", ErrInvalid, "The SHA-256 of the file differs from the announced one: the file changed, or was damaged in transit. Send it again.", "", ""},
		{"body_broken", ErrInvalid, "The upload was interrupted or too slow. Send the file again.", "", "The minimum speed is 8 KiB per second."},
		{"file_underway", ErrTooMany, "This file is already being uploaded. Wait until the upload ends, or retry in a few seconds if it was cut off.", "", ""},
		{"too_many_files_underway", ErrTooMany, "A session can upload four files at the same time. Send this file when another upload ends.", "", ""},
		{"upload_full", ErrTooLarge, "An upload can have at most %d files and %d MiB. Send the important files, or use several uploads.", "", ""},
		{"too_many_uploads", ErrTooLarge, "This session has reached the limit of %d uploads. Ask your user for a new session.", "", ""},
		{"evidence_full", ErrTooLarge, "A session can store at most %d MiB of evidence.", "", ""},
		{"other_bytes", ErrConflict, "This upload already has a different file with this name. Use another upload ID for the changed file.", "", ""},
		{"upload_sealed", ErrConflict, "This upload is sealed and accepts no more files. Use another upload ID.", "", ""},
		{"upload_gone", ErrConflict, "This upload was never verified and was removed. Use another upload ID.", "", "See `--evidence-unsealed`."},
		{"upload_incomplete", ErrConflict, "%d files are missing, the first of them %q. Send them again, then verify.", "", ""},
		{"upload_not_found", ErrNotFound, "This session has no such upload. Send the files first, or leave out the upload ID.", "", "`sallyport verify FOLDER` sends the files."},
		{"files_unavailable", ErrUnavailable, "The evidence storage is unreachable or full. Try again in a moment.", "", "Check the folder or bucket of `--evidence`."},
		{"env_request_not_found", ErrNotFound, "Request for environment variables not found.", "list env requests", ""},
		{"setup_not_found", ErrNotFound, "Setup %q not found. A setup session saves one under the name of its group, or under %q.", "list setups", ""},
		{"unknown_client", ErrInvalid, "Unknown client %q. Use one of %s.", "", ""},
		{"unknown_model", ErrInvalid, "Unknown model %q. Use one of %s.", "", ""},
	}, "invalid_name file_not_found"}
}
