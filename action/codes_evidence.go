package action

// evidenceErrors are errors of uploaded evidence, environment variables and
// setups.
func evidenceErrors() Area {
	return Area{"Evidence, variables and setups", []Declaration{
		{"file_too_large", ErrTooLarge, "A file has at most %d MiB; send a smaller one.", "", ""},
		{"invalid_file", ErrInvalid, "Send the file's size in bytes and its SHA-256 in lower-case hex.", "", ""},
		{"wrong_size", ErrInvalid, "The file does not have the %d bytes that were announced; send it again.", "", ""},
		{"wrong_digest", ErrInvalid, "The file's SHA-256 is not the one that was announced: it changed, or was damaged in transit; send it again.", "", ""},
		{"body_broken", ErrInvalid, "The upload of the file was interrupted or too slow; send it again.", "", "At least 8 KiB a second."},
		{"file_underway", ErrTooMany, "This file is already being sent to this upload; wait until that is done, or try again in some seconds if it was cut off.", "", ""},
		{"too_many_files_underway", ErrTooMany, "A session sends four files at once at most; send this one when another is done.", "", ""},
		{"upload_full", ErrTooLarge, "An upload has at most %d files and %d MiB; send what matters, or several uploads.", "", ""},
		{"too_many_uploads", ErrTooLarge, "This session has %d uploads, which is the maximum; ask your user for a new session.", "", ""},
		{"evidence_full", ErrTooLarge, "A session has at most %d MiB of evidence in all.", "", ""},
		{"other_bytes", ErrConflict, "This upload has another file of that name; use another upload id for the changed one.", "", ""},
		{"upload_sealed", ErrConflict, "This upload is sealed and takes no more files; use another upload id.", "", ""},
		{"upload_gone", ErrConflict, "This upload was never verified and was removed; use another upload id.", "", "See `--evidence-unsealed`."},
		{"upload_incomplete", ErrConflict, "%d files did not arrive, the first of them %q; send them again, then verify.", "", ""},
		{"upload_not_found", ErrNotFound, "This session has no such upload; send the files first, or leave the upload id out.", "", "`sallyport verify FOLDER` sends them."},
		{"files_unavailable", ErrUnavailable, "The evidence store cannot be reached or is full; try again in a moment.", "", "Check the folder or bucket of `--evidence`."},
		{"env_request_not_found", ErrNotFound, "There is no such request for environment variables.", "list env requests", ""},
		{"setup_not_found", ErrNotFound, "There is no setup %q; a setup session saves one under its group's name, or under %q.", "list setups", ""},
		{"unknown_client", ErrInvalid, "There is no client %q here; use one of %s.", "", ""},
		{"unknown_model", ErrInvalid, "There is no model %q; use one of %s.", "", ""},
	}, "invalid_name file_not_found"}
}
