package guard

import "net/netip"

// Refuses tells how a transport of this configuration judges an address.
func Refuses(c Config, addr string) string {
	return newChecker(c.Allow, c.AllowLoopback).blockedClass(netip.MustParseAddr(addr))
}
