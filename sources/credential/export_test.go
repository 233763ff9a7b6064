package credential

// Check tells whether a URL that a server names may be used.
func Check(o *OAuth, server, raw string) error {
	r, err := o.reach(server)
	if err == nil {
		_, err = r.check(raw, "thing")
	}
	return err
}
