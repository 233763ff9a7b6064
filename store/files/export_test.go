package files

// BaseURL returns where the requests for a bucket go.
func BaseURL(name, region, endpoint, style string) (string, error) {
	u, err := baseURL(name, region, endpoint, style)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}
