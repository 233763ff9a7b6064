package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sallyport/action"
)

// ErrBlocked reports a blocked address or redirect. Errors that wrap it are
// also [*action.Error]s.
var ErrBlocked = errors.New("blocked")

// addressRange is a range of addresses that are not public.
type addressRange struct {
	prefix netip.Prefix
	name   string
}

func ranges(name string, prefixes ...string) (list []addressRange) {
	for _, p := range prefixes {
		list = append(list, addressRange{netip.MustParsePrefix(p), name})
	}
	return list
}

// blockedRanges lists the blocked addresses, the most specific name first. IPv6
// addresses outside 2000::/3 are all blocked; only those with a name of their
// own are listed.
func blockedRanges() []addressRange {
	var all []addressRange
	for _, list := range [][]addressRange{
		ranges("loopback", "127.0.0.0/8", "::1/128"),
		ranges("unspecified", "0.0.0.0/8", "::/128"),
		ranges("private", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"),
		ranges("link-local", "169.254.0.0/16", "fe80::/10"),
		ranges("carrier-grade NAT", "100.64.0.0/10"),
		ranges("multicast", "224.0.0.0/4", "ff00::/8"),
		ranges("benchmarking", "198.18.0.0/15", "2001:2::/48"),
		ranges("documentation", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
		ranges("tunnel", "192.88.99.0/24", "2001::/32", "2002::/16", "64:ff9b:1::/48", "::/96"),
		ranges("reserved", "192.0.0.0/24", "240.0.0.0/4", "2001::/23"),
	} {
		all = append(all, list...)
	}
	return all
}

// checker decides which addresses are permitted.
type checker struct {
	blocked, metadata []addressRange
	global, nat64     netip.Prefix
	allow             []netip.Prefix
	loopback          bool
}

func newChecker(allow []netip.Prefix, loopback bool) *checker {
	c := &checker{
		blocked: blockedRanges(), loopback: loopback,
		// The addresses at which clouds serve machine credentials. Only a prefix for
		// exactly one of them permits it.
		metadata: ranges("cloud metadata",
			"169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "100.100.100.200/32",
			"168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128", "fd00:ec2::23/128", "fd20:ce::254/128"),
		global: netip.MustParsePrefix("2000::/3"),
		nat64:  netip.MustParsePrefix("64:ff9b::/96"),
	}
	for _, p := range allow {
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		c.allow = append(c.allow, p)
	}
	return c
}

// blockedClass returns the name of the class because of which the address is
// blocked, or the empty string.
func (c *checker) blockedClass(addr netip.Addr) string {
	addr = addr.WithZone("").Unmap()
	if c.nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	for _, m := range c.metadata {
		if m.prefix.Contains(addr) {
			if c.allowed(addr, addr.BitLen()) {
				return ""
			}
			return m.name
		}
	}
	if c.allowed(addr, 0) || c.loopback && addr.IsLoopback() {
		return ""
	}
	for _, r := range c.blocked {
		if r.prefix.Contains(addr) {
			return r.name
		}
	}
	if !addr.IsValid() || addr.Is6() && !c.global.Contains(addr) {
		return "reserved"
	}
	return ""
}

// resolveTimeout bounds the lookup in [Config.CheckReach].
const resolveTimeout = 2 * time.Second

// CheckReach reports a URL to which a client with this configuration cannot
// connect, with ErrInvalid and the field /url, when the URL is configured. A
// name that cannot be resolved is accepted: it can exist later. Connecting
// checks the address again.
func (c Config) CheckReach(ctx context.Context, u *url.URL) error {
	check := newChecker(c.Allow, c.AllowLoopback || Loopback(u))
	ctx, stop := context.WithTimeout(ctx, resolveTimeout)
	defer stop()
	resolver := c.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	addrs, err := resolver.LookupNetIP(ctx, "ip", u.Hostname()) // an address is its own answer
	if err != nil || len(addrs) == 0 {
		return nil //nolint:nilerr // see above
	}
	var name string
	for _, a := range addrs {
		if name = check.blockedClass(a); name == "" {
			return nil
		}
	}
	refused := blocked(name, addrs[0].String())
	return &action.Error{Kind: action.ErrInvalid, Code: "address_blocked", Field: "/url", Message: action.Public(refused).Message, Err: refused}
}

func (c *checker) allowed(addr netip.Addr, bits int) bool {
	for _, p := range c.allow {
		if p.Bits() >= bits && p.Contains(addr) {
			return true
		}
	}
	return false
}

// control is called with the resolved address before connecting.
func (c *checker) control(network, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return blocked("unknown", network+" "+address)
	}
	if name := c.blockedClass(at.Addr()); name != "" {
		return blocked(name, at.Addr().String())
	}
	return nil
}

// blocked includes the class in the message, and the address only in the log:
// it would disclose names of an internal network.
func blocked(class, address string) error {
	return action.Errorf(action.ErrUnavailable, "address_blocked", "The host resolves to an address of the class %q, which the gateway does not connect to. "+
		"If it is meant to, the operator can start the gateway with --allow-upstream CIDR.", class).WithCause(fmt.Errorf("%w: %s is %s", ErrBlocked, address, class))
}

// maxURL bounds the length of a configured URL.
const maxURL = 2048

// CheckURL parses a configured URL: http or https, with a host, without user,
// password and fragment. The error is an [*action.Error] of kind ErrInvalid
// with the field /url. The host's address is checked when connecting.
func CheckURL(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, invalidURL("The URL is longer than %d characters.", maxURL)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, invalidURL("This is not a URL; it should look like https://host/path.")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, invalidURL("The URL must begin with https:// or http://.")
	case u.Hostname() == "" || u.Opaque != "":
		return nil, invalidURL("The URL has no host; it should look like https://host/path.")
	case u.User != nil:
		return nil, invalidURL("The URL must not hold a user or password; store the credential as a secret.")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return nil, invalidURL("The URL must not have a fragment (the part after #).")
	case !goodPort(u):
		return nil, invalidURL("The port of the URL must be a number from 1 to 65535.")
	case strings.ContainsFunc(u.Host, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, invalidURL("The host of the URL must be plain ASCII; write an international name in its xn-- form.")
	}
	return u, nil
}

// CheckBaseURL is [CheckURL] for the base URL of an API that receives a
// credential: https, or http on loopback, without a query. The field is
// /base_url.
func CheckBaseURL(raw string) (*url.URL, error) {
	u, err := CheckURL(raw)
	switch {
	case err != nil:
		there := *action.Public(err)
		there.Field = "/base_url"
		return nil, &there
	case u.Scheme != "https" && !Loopback(u), u.RawQuery != "":
		return nil, action.Errorf(action.ErrInvalid, "invalid_field",
			"base_url must be an https URL without a query, such as https://sentry.example.com.").WithField("/base_url")
	}
	return u, nil
}

func invalidURL(format string, args ...any) error {
	e := action.Errorf(action.ErrInvalid, "invalid_url", format, args...)
	e.Field = "/url"
	return e
}

func goodPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && n > 0
}

// Host returns the host and port that a URL leads to, in one form for all
// that lead to the same: lower case, the port always there, IPv6 in [].
func Host(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "http":
		port = "80"
	case u.Scheme == "https":
		port = "443"
	}
	return net.JoinHostPort(strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), port)
}

// Loopback reports whether the URL itself names loopback.
func Loopback(u *url.URL) bool {
	return action.Loopback(u.Hostname())
}
