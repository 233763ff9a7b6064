package redact

import "bytes"

// maxNormal is how much of the end of a name counts.
const maxNormal = 48

// normal writes the end of a name, without case and punctuation, into buf.
// What is a path is no name.
func normal(buf *[maxNormal]byte, name []byte) []byte {
	n := len(buf)
	for i := len(name) - 1; i >= 0 && n > 0; i-- {
		c := name[i]
		switch set := sets[c]; {
		case c == '/':
			return nil
		case set&upper != 0:
			c += 'a' - 'A'
		case set&alnum == 0 && c < 0x80:
			continue
		}
		n--
		buf[n] = c
	}
	return buf[n:]
}

// What the name of a member says of its value, or of the other members.
type role int

const (
	plainName role = iota
	secretNamed
	labelNamed // its value is the name of what another member holds
	valueNamed // it holds what another member names
	basicNamed // a user and password in base64 may be in it
)

func roleOf(name []byte) role {
	var buf [maxNormal]byte
	n := normal(&buf, name)
	switch string(n) {
	case "name", "key", "header", "headername", "field", "fieldname", "param", "parameter", "variable", "k":
		return labelNamed
	case "value", "values", "headervalue", "val", "v":
		return valueNamed
	case "auth":
		return basicNamed
	}
	if isSecret(n) || marked(name, n) {
		return secretNamed
	}
	return plainName
}

// secretName reports whether a member of that name holds a secret.
func secretName(name []byte) bool {
	var buf [maxNormal]byte
	n := normal(&buf, name)
	return isSecret(n) || marked(name, n)
}

// isSecret knows whole names, and endings that make one whatever is before:
// GITHUB_TOKEN too, but next_page_token not.
func isSecret(n []byte) bool {
	switch string(n) {
	case "":
		return false
	case "token", "idtoken", "jwt", "bearer", "pwd", "totp", "passcode", "cookie", "cookies", "setcookie",
		"secretstring", "secretbinary", "secretvalue", "secretkeybase", "stringdata", "kubeconfig", "samlresponse",
		"clientassertion", "recoverycodes", "backupcodes", "passwords", "passwordconfirmation", "apikeys", "accesstokens",
		"refreshtokens", "clientsecrets", "secretkeys", "privatekeys", "privatekeypem", "dockerconfigjson", "basicauth",
		"xauthkey", "xfunctionskey", "xapiauth", "ddapplicationkey":
		return true
	}
	switch n[len(n)-1] {
	case 'd':
		return endsIn(n, "password", "passwd", "userpwd", "dbpwd")
	case 'e':
		return endsIn(n, "passphrase")
	case 'g':
		return endsIn(n, "connectionstring")
	case 'l', 's':
		return endsIn(n, "credential", "credentials")
	case 't':
		return endsIn(n, "secret")
	case 'y':
		kind, ok := bytes.CutSuffix(n, []byte("key"))
		return ok && endsIn(kind, "api", "secret", "secretaccess", "sharedaccess", "apiaccess", "private", "account", "session",
			"signing", "encryption", "master", "token", "servicerole", "subscription", "storage", "hmac", "shared")
	case 'n':
		kind, ok := bytes.CutSuffix(n, []byte("token"))
		return ok && endsIn(kind, "access", "refresh", "auth", "oauth2", "api", "bearer", "session", "security", "private", "bot",
			"user", "deploy", "job", "runner", "registration", "reset", "invite", "verification", "csrf", "xsrf", "admin", "root",
			"service", "installation", "webhook", "github", "gh", "gitlab", "slack", "linear", "sentry", "npm", "pypi", "vault",
			"consul", "circle", "discord", "telegram", "hf", "cloudflare", "notion") || endsIn(n, "authorization")
	}
	return false
}

func endsIn(name []byte, endings ...string) bool {
	for _, ending := range endings {
		if bytes.HasSuffix(name, []byte(ending)) {
			return true
		}
	}
	return false
}

// marked reports whether a name that ends in token says by its form that it
// is a credential: an environment variable, a header of somebody's own.
func marked(name, n []byte) bool {
	if len(name) < len("A_TOKEN") || !endsIn(n, "token", "pass") {
		return false
	}
	switch {
	case bytes.Contains(n, []byte("page")), bytes.Contains(n, []byte("next")), bytes.Contains(n, []byte("continuation")):
		return false
	case name[0]|0x20 == 'x' && name[1] == '-':
		return true
	}
	return bytes.IndexByte(name, '_') > 0 && !bytes.ContainsFunc(name, func(r rune) bool { return 'a' <= r && r <= 'z' })
}

// secretParameter reports whether name=value, in a URL above all, holds one.
func secretParameter(name []byte) bool {
	if secretName(name) || string(name) == "_auth" {
		return true
	}
	var buf [maxNormal]byte
	switch string(normal(&buf, name)) {
	case "sig", "signature", "xamzsignature", "xamzcredential", "xgoogsignature", "xgoogcredential", "jsessionid", "phpsessid", "connectsid":
		return true
	}
	return false
}

// isQueryKey reports whether a parameter of that name may hold a secret when
// it looks like one.
func isQueryKey(name []byte) bool {
	switch string(bytes.ToLower(name)) {
	case "key", "code", "auth", "ticket", "k":
		return true
	}
	return false
}

// secretHeader reports whether the rest of a line that begins with this name
// and a colon is one.
func secretHeader(name []byte) bool {
	if !secretName(name) {
		return false
	}
	var buf [maxNormal]byte
	n := normal(&buf, name)
	return bytes.IndexByte(name, '-') > 0 || endsIn(n, "authorization") || string(n) == "cookie"
}

// passwordName reports whether the word after this name and a colon is one,
// whatever it looks like, in text that is neither JSON nor a header.
func passwordName(name []byte) bool {
	var buf [maxNormal]byte
	return endsIn(normal(&buf, name), "password", "passwd", "passphrase", "clientsecret", "secretaccesskey", "accesstoken", "refreshtoken")
}
