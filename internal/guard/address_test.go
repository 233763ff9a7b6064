package guard_test

import (
	"errors"
	"net/netip"
	"testing"

	"sallyport/action"
	"sallyport/internal/guard"
)

func TestAddresses(t *testing.T) {
	for addr, want := range map[string]string{
		"8.8.8.8": "", "1.1.1.1": "", "172.15.255.255": "", "172.32.0.1": "", "100.63.255.255": "", "100.128.0.1": "",
		"192.0.1.1": "", "198.17.255.255": "", "198.20.0.1": "", "223.255.255.255": "", "11.0.0.1": "", "169.253.1.1": "",
		"2606:4700::1111": "", "2001:4860:4860::8888": "", "2a00:1450::1": "",
		"64:ff9b::8.8.8.8": "", "::ffff:8.8.8.8": "",

		"127.0.0.1": "loopback", "127.255.255.254": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback",
		"0.0.0.0": "unspecified", "0.1.2.3": "unspecified", "::": "unspecified",
		"10.0.0.1": "private", "172.16.0.1": "private", "172.31.255.255": "private", "192.168.1.1": "private",
		"::ffff:10.0.0.1": "private", "64:ff9b::10.0.0.1": "private", "64:ff9b::192.168.1.1": "private",
		"fc00::1": "private", "fd12:3456::1": "private", "fec0::1": "private",
		"169.254.1.1": "link-local", "fe80::1": "link-local", "fe80::1%eth0": "link-local", "febf::1": "link-local",
		"169.254.169.254": "cloud metadata", "169.254.170.2": "cloud metadata", "fd00:ec2::254": "cloud metadata",
		"100.100.100.200": "cloud metadata", "168.63.129.16": "cloud metadata", "::ffff:169.254.169.254": "cloud metadata",
		"64:ff9b::169.254.169.254": "cloud metadata",
		"100.64.0.1":               "carrier-grade NAT", "100.127.255.255": "carrier-grade NAT",
		"224.0.0.1": "multicast", "239.255.255.255": "multicast", "ff02::1": "multicast",
		"198.18.0.1": "benchmarking", "198.19.255.255": "benchmarking",
		"192.0.2.1": "documentation", "198.51.100.1": "documentation", "203.0.113.1": "documentation",
		"2001:db8::1": "documentation", "3fff::1": "documentation",
		"2002:7f00:1::": "tunnel", "2002:808:808::": "tunnel", "2001:0:4136:e378::1": "tunnel", "::8.8.8.8": "tunnel",
		"::127.0.0.1": "tunnel", "64:ff9b:1::7f00:1": "tunnel", "192.88.99.1": "tunnel",
		"192.0.0.1": "reserved", "240.0.0.1": "reserved", "255.255.255.255": "reserved",
		"2001:20::1": "reserved", "100::1": "reserved", "4000::1": "reserved", "5f00::1": "reserved", "::2:0:0": "reserved",
	} {
		if got := guard.Refuses(guard.Config{}, addr); got != want {
			t.Errorf("%s: got %q, want %q", addr, got, want)
		}
	}
}

func TestAllowedAddresses(t *testing.T) {
	allow := func(list ...string) guard.Config {
		var c guard.Config
		for _, p := range list {
			c.Allow = append(c.Allow, netip.MustParsePrefix(p))
		}
		return c
	}
	loopback := guard.Config{AllowLoopback: true}
	for _, test := range []struct {
		config     guard.Config
		addr, want string
	}{
		{loopback, "127.0.0.1", ""},
		{loopback, "127.0.0.53", ""},
		{loopback, "::1", ""},
		{loopback, "::ffff:127.0.0.1", ""},
		{loopback, "0.0.0.0", "unspecified"},
		{loopback, "10.0.0.1", "private"},
		{allow("10.1.0.0/16"), "10.1.2.3", ""},
		{allow("10.1.0.0/16"), "::ffff:10.1.2.3", ""},
		{allow("10.1.0.0/16"), "64:ff9b::10.1.2.3", ""},
		{allow("::ffff:10.1.0.0/112"), "10.1.2.3", ""},
		{allow("10.1.0.0/16"), "10.2.0.1", "private"},
		{allow("10.1.0.0/16"), "127.0.0.1", "loopback"},
		{allow("fd12::/16"), "fd12::1", ""},
		{allow("0.0.0.0/0", "::/0"), "10.0.0.1", ""},
		{allow("0.0.0.0/0", "::/0"), "169.254.169.254", "cloud metadata"},
		{allow("0.0.0.0/0", "::/0"), "64:ff9b::169.254.169.254", "cloud metadata"},
		{allow("0.0.0.0/0", "::/0"), "fd00:ec2::254", "cloud metadata"},
		{allow("169.254.0.0/16"), "169.254.169.254", "cloud metadata"},
		{allow("169.254.169.254/32"), "169.254.169.254", ""},
	} {
		if got := guard.Refuses(test.config, test.addr); got != test.want {
			t.Errorf("%v: %s: got %q, want %q", test.config.Allow, test.addr, got, test.want)
		}
	}
}

// However an IPv4 address is wrapped, it is judged no milder than bare.
func FuzzWrappedAddresses(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add([]byte{169, 254, 169, 254})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != 4 {
			return
		}
		v4 := netip.AddrFrom4([4]byte(b))
		bare := guard.Refuses(guard.Config{}, v4.String())
		for _, head := range []string{"::ffff:", "64:ff9b::"} {
			if got := guard.Refuses(guard.Config{}, head+v4.String()); got != bare {
				t.Errorf("%s%s: %q, bare %q", head, v4, got, bare)
			}
		}
		sixToFour := netip.AddrFrom16([16]byte{0x20, 0x02, b[0], b[1], b[2], b[3]})
		if guard.Refuses(guard.Config{}, sixToFour.String()) == "" {
			t.Errorf("%s passes", sixToFour)
		}
	})
}

// What is refused when a URL is set is what is refused when it is dialled.
func TestCheckReach(t *testing.T) {
	open := guard.Config{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	for _, test := range []struct {
		config  guard.Config
		url     string
		refused bool
	}{
		{guard.Config{}, "https://8.8.8.8/hook", false},
		{guard.Config{}, "http://127.0.0.1:9/hook", false},
		{guard.Config{}, "http://localhost/hook", false},
		{guard.Config{}, "https://name.invalid/hook", false},
		{guard.Config{}, "https://10.1.2.3/hook", true},
		{guard.Config{}, "https://[::ffff:10.1.2.3]:8443/hook", true},
		{guard.Config{}, "https://169.254.169.254/", true},
		{open, "https://10.1.2.3/hook", false},
		{open, "https://192.168.1.1/hook", true},
	} {
		u, err := guard.CheckURL(test.url)
		if err != nil {
			t.Fatal(err)
		}
		err = test.config.CheckReach(t.Context(), u)
		if refused := errors.Is(err, action.ErrInvalid) && errors.Is(err, guard.ErrBlocked); refused != test.refused || !refused && err != nil {
			t.Errorf("%s: %v", test.url, err)
		}
	}
}
