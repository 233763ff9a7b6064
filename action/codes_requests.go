package action

// requestErrors are errors of the form of an HTTP request.
func requestErrors() Area {
	return Area{"Requests", []Declaration{
		{"malformed_json", ErrInvalid, `Send the code of a sign-in link as {"code": …}.`, "", ""},
		{"body_too_large", ErrTooLarge, "The request body is larger than %d bytes.", "", ""},
		{"invalid_path", ErrInvalid, "", "", "A part of the path is empty or only dots, or a param leads to another path."},
		{"invalid_cursor", ErrInvalid, "", "", "The cursor belongs to another list. Leave it out to start again."},
		{"no_such_route", ErrNotFound, "No route %s %s.", "list routes", ""},
		{"no_such_file", ErrNotFound, "File not found.", "", "After an upgrade, reload the page."},
	}, "invalid_request invalid_field invalid missing_field unknown_field unsupported_media_type invalid_url no_such_page " +
		"nothing_to_change"}
}
