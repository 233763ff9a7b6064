package dashboard

import "net/http"

type pages struct{ s *Server }

func newPages(s *Server) (*pages, error) { return &pages{s}, nil }

func (p *pages) mount(*http.ServeMux) {}
