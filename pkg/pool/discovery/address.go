package discovery

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/fairlead/fairlead/pkg/pool"
)

// ParseAddress reads the IP address of an endpoint, IPv6 bare or in brackets. An IPv4-mapped one becomes IPv4. The error
// says what to write instead; it does not repeat s.
func ParseAddress(s string) (netip.Addr, error) {
	bare := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		if bare = s[1 : len(s)-1]; !strings.Contains(bare, ":") {
			return netip.Addr{}, errors.New("brackets are for IPv6 addresses; leave them out")
		}
	}
	addr, err := netip.ParseAddr(bare)
	if err != nil {
		return netip.Addr{}, notAddress(s)
	}
	addr = addr.Unmap()
	switch {
	case addr.Zone() != "":
		return netip.Addr{}, errors.New("a gateway cannot reach an address with a zone; write one without")
	case addr.IsUnspecified():
		return netip.Addr{}, errors.New("this stands for all addresses of a host; write the one that clients use")
	case addr.IsMulticast() || addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return netip.Addr{}, errors.New("this is no address of one host")
	}
	return addr, nil
}

func notAddress(s string) error {
	if _, err := netip.ParseAddrPort(s); err == nil {
		return errors.New("write the address alone, and the port in its own field")
	}
	if s == "localhost" {
		return errors.New("write 127.0.0.1 or ::1: names are not resolved")
	}
	if strings.Contains(s, "://") {
		return errors.New("write the IP address alone, without a scheme")
	}
	if strings.TrimSpace(s) != s {
		return errors.New("there are blanks around it; remove them")
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }) && !strings.Contains(s, ":") {
		return errors.New("names are not resolved, since their addresses may change unseen; write the IP address that `getent hosts` prints for it")
	}
	return errors.New("write an IP address, like 10.0.0.1 or fd00::1")
}

// FromURL returns the endpoint that a URL like http://10.0.0.1:8000 or http://[fd00::1]:8000 stands for. Its name is host and port, its
// namespace DefaultNamespace. Without a port it is 80.
func FromURL(raw string) (Entry, error) {
	u, err := url.Parse(raw)
	bad := func(format string, args ...any) (Entry, error) {
		return Entry{}, fmt.Errorf("endpoint %q: %s", raw, fmt.Sprintf(format, args...))
	}
	switch {
	case err != nil || u.Host == "":
		return bad("this is no URL; write one like http://10.0.0.1:8000")
	case u.Scheme != "http":
		return bad("scheme is %q; endpoints are reached by http", u.Scheme)
	case u.User != nil: // its password is not repeated
		return Entry{}, fmt.Errorf("endpoint %q: a user has no meaning here; leave it out", u.Redacted())
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return bad("paths come from the requests; end after the port")
	}
	addr, err := ParseAddress(u.Hostname())
	if err != nil {
		return bad("%v", err)
	}
	port := uint16(80)
	if p := u.Port(); p != "" || strings.HasSuffix(u.Host, ":") {
		if port = parsePort(p); port == 0 {
			return bad("port is %q; write a number from 1 to 65535", p)
		}
	}
	at := netip.AddrPortFrom(addr, port)
	return Entry{Endpoint: pool.Endpoint{Namespace: DefaultNamespace, Name: at.String(), Addr: at, Metrics: at}}, nil
}

// parsePort reads a decimal port; 0 if it is none.
func parsePort(s string) uint16 {
	port, err := strconv.ParseUint(s, 10, 16)
	if err != nil || s[0] == '+' {
		return 0
	}
	return uint16(port)
}
