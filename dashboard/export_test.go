package dashboard

// OpenAPI returns the description of the API, as it is served.
func (s *Server) OpenAPI() ([]byte, error) { return s.describe() }
