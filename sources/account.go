package sources

import (
	"net/url"
	"strings"

	"sallyport/internal/guard"
)

// AccountID makes an id unique among servers: each one that somebody runs
// himself counts from 1. Cloud is the host of the service's own, whose ids stay
// as they are, as those of the hosts below it.
func AccountID(base *url.URL, cloud, id string) string {
	host := strings.TrimSuffix(guard.Host(base), ":443")
	if host == cloud || strings.HasSuffix(host, "."+cloud) {
		return id
	}
	return host + strings.TrimRight(base.Path, "/") + "#" + id
}
