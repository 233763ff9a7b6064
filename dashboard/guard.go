package dashboard

import (
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"

	"sallyport/action"
	"sallyport/dashboard/render"
)

// contentPolicy restricts pages to their own files.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// guard wraps every route: it checks the Host and Origin headers and sets the
// security headers of the response.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		err := s.checkOrigin(r)
		if err == nil {
			err = checkPath(r)
		}
		if err != nil {
			s.Fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkOrigin refuses foreign hosts (DNS rebinding) and foreign origins, whatever
// the credential.
func (s *Server) checkOrigin(r *http.Request) error {
	if isProbe(r.URL.Path) {
		return nil // probes use the address itself
	}
	if !s.knowsHost(r.Host) {
		return action.NewError("foreign_host", s.PublicURL)
	}
	if origin, ok := r.Header["Origin"]; ok && (len(origin) != 1 || origin[0] != s.PublicURL) {
		return action.Errorf(action.ErrForbidden, "foreign_origin",
			"Requests from pages of another origin are refused; open %s.", s.PublicURL)
	}
	return nil
}

// checkPath refuses API paths with an empty segment: the mux would redirect to the
// cleaned path, which is another resource.
func checkPath(r *http.Request) error {
	p := r.URL.EscapedPath()
	if !strings.HasPrefix(p, "/api/") || path.Clean(p) == strings.TrimSuffix(p, "/") {
		return nil
	}
	return action.Errorf(action.ErrInvalid, "invalid_path",
		"A part of the path %s is empty or only dots; name what belongs there. A / within a name is written %%2F.", render.Plain(r.URL.Path))
}

func isProbe(path string) bool { return path == "/healthz" || path == "/readyz" }

func allowedHosts(public *url.URL, more []string) map[string]bool {
	hosts := map[string]bool{strings.ToLower(public.Host): true}
	if action.Loopback(public.Hostname()) { // its other names cannot be rebound by DNS
		for _, name := range []string{"localhost", "127.0.0.1", "[::1]"} {
			hosts[strings.TrimSuffix(name+":"+public.Port(), ":")] = true
		}
	}
	for _, h := range more {
		hosts[strings.ToLower(h)] = true
	}
	return hosts
}

// knowsHost compares with and without the port: the name alone identifies a
// rebound host.
func (s *Server) knowsHost(host string) bool {
	host = strings.ToLower(host)
	if s.hosts[host] {
		return true
	}
	name, _, err := net.SplitHostPort(host)
	return err == nil && (s.hosts[name] || s.hosts["["+name+"]"])
}

// fromPage reports whether the Origin header is that of the page.
func (s *Server) fromPage(r *http.Request) bool { return r.Header.Get("Origin") == s.PublicURL }
