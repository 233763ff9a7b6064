package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"sallyport/action"
)

// ErrBlocked is an address, or a redirect, that may not be used. Errors that
// wrap it also are [*action.Error]s.
var ErrBlocked = errors.New("blocked")

// class is a range of addresses that are not for everyone to reach.
type class struct {
	prefix netip.Prefix
	name   string
}

func ranges(name string, prefixes ...string) (list []class) {
	for _, p := range prefixes {
		list = append(list, class{netip.MustParsePrefix(p), name})
	}
	return list
}

// closed lists what is refused, the most telling name first. Addresses of
// IPv6 outside 2000::/3 are refused altogether, so that of them only those
// with a name of their own are here.
func closed() []class {
	var all []class
	for _, list := range [][]class{
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

// metadata lists the addresses at which clouds tell machines their own
// credentials. Only a prefix that is exactly one of them opens it.
func metadata() []class {
	return ranges("cloud metadata",
		"169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "100.100.100.200/32",
		"168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128", "fd00:ec2::23/128", "fd20:ce::254/128")
}

// checker decides about addresses.
type checker struct {
	closed, metadata []class
	global, nat64    netip.Prefix
	allow            []netip.Prefix
	loopback         bool
}

func newChecker(allow []netip.Prefix, loopback bool) *checker {
	c := &checker{
		closed: closed(), metadata: metadata(), loopback: loopback,
		global: netip.MustParsePrefix("2000::/3"),
		nat64:  netip.MustParsePrefix("64:ff9b::/96"),
	}
	for _, p := range allow {
		c.allow = append(c.allow, unmapped(p))
	}
	return c
}

// unmapped turns a prefix of IPv4-mapped addresses into one of IPv4.
func unmapped(p netip.Prefix) netip.Prefix {
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p
}

// refuses returns the name of the class for which the address is refused, or
// nothing when it may be dialled.
func (c *checker) refuses(addr netip.Addr) string {
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
	for _, r := range c.closed {
		if r.prefix.Contains(addr) {
			return r.name
		}
	}
	if !addr.IsValid() || addr.Is6() && !c.global.Contains(addr) {
		return "reserved"
	}
	return ""
}

// resolveWithin is how long a name may take that [Config.CheckReach] looks up.
const resolveWithin = 2 * time.Second

// CheckReach refuses a URL to which a client of this configuration may not
// connect now, with ErrInvalid and the field /url, so that whoever sets it hears of
// it at once. A name that cannot be looked up is not refused: it may be known
// later. What is dialled is checked again then.
func (c Config) CheckReach(ctx context.Context, u *url.URL) error {
	check := newChecker(c.Allow, c.AllowLoopback || Loopback(u))
	ctx, stop := context.WithTimeout(ctx, resolveWithin)
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
		if name = check.refuses(a); name == "" {
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

// control is called with the address about to be connected to, after every
// name has been resolved.
func (c *checker) control(network, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return blocked("unknown", network+" "+address)
	}
	if name := c.refuses(at.Addr()); name != "" {
		return blocked(name, at.Addr().String())
	}
	return nil
}

// blocked names the class to whoever asked, and the address to the log only:
// it would tell the names of an inner network to the outside.
func blocked(class, address string) error {
	return action.Errorf(action.ErrUnavailable, "address_blocked", "The host resolves to an address of the class %q, which the gateway does not connect to. "+
		"If it is meant to, the operator can start the gateway with --allow-upstream CIDR.", class).WithCause(fmt.Errorf("%w: %s is %s", ErrBlocked, address, class))
}
