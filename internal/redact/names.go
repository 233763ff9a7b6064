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
	textNamed  // a text in it is a secret, as in {"auth": "…"}; the rest is looked into
)

func roleOf(name []byte) role {
	var buf [maxNormal]byte
	n := normal(&buf, name)
	switch string(n) {
	case "name", "key", "header", "headername", "field", "fieldname", "param", "parameter", "variable", "k":
		return labelNamed
	case "value", "values", "headervalue", "val", "v":
		return valueNamed
	}
	switch {
	case isSecret(n) || marked(name, n):
		return secretNamed
	case string(n) == "auth" || isPass(n):
		return textNamed
	}
	return plainName
}

// secretName reports whether a member of that name holds a secret, whatever
// its value is.
func secretName(name []byte) bool {
	var buf [maxNormal]byte
	n := normal(&buf, name)
	return isSecret(n) || marked(name, n)
}

// secretText reports whether a text of that name is a secret.
func secretText(name []byte) bool {
	var buf [maxNormal]byte
	n := normal(&buf, name)
	return isSecret(n) || isPass(n) || marked(name, n)
}

// isPass knows the names that have other meanings when what they hold is no
// text: a count of tests that pass, a flow of OAuth.
func isPass(n []byte) bool {
	n = unnumbered(n)
	if string(n) == "pass" || string(n) == "pw" {
		return true
	}
	if kind, ok := bytes.CutSuffix(n, []byte("pass")); ok {
		return endsIn(kind, "user", "db", "smtp", "mail", "ftp", "proxy", "root", "admin", "sudo", "sql", "pg", "redis", "login", "auth",
			"ssh", "ldap", "bind", "key", "store", "api", "http")
	}
	kind, ok := bytes.CutSuffix(n, []byte("code"))
	return ok && endsIn(kind, "otp", "mfa", "2fa", "twofactor", "auth", "authorization", "device", "sms", "verification", "login", "onetime",
		"recovery", "backup")
}

// isKind tells what a member such as auth says of how something is done, or
// whether, from a secret.
func isKind(text []byte) bool {
	var buf [maxNormal]byte
	switch string(normal(&buf, text)) {
	case "none", "anonymous", "public", "private", "required", "optional", "inherit", "noauth", "basic", "bearer", "digest", "ntlm",
		"oauth", "oauth1", "oauth2", "oidc", "openid", "saml", "ldap", "sso", "mtls", "ssh", "iam", "jwt", "pat", "apikey", "token",
		"password", "user", "session", "cookie", "true", "false", "yes", "no", "ok", "pass", "fail", "passed", "failed", "string":
		return len(text) < maxNormal
	}
	return false
}

func unnumbered(n []byte) []byte {
	for len(n) > 0 && sets[n[len(n)-1]]&digit != 0 {
		n = n[:len(n)-1]
	}
	return n
}

// isSecret knows whole names, and endings that make one whatever is before:
// GITHUB_TOKEN too, but next_page_token not. Numbers at the end do not count.
func isSecret(n []byte) bool {
	n = unnumbered(n)
	switch string(n) {
	case "":
		return false
	case "token", "idtoken", "jwt", "bearer", "pwd", "totp", "passcode", "cookie", "cookies", "setcookie",
		"secretstring", "secretbinary", "secretvalue", "secretkeybase", "stringdata", "kubeconfig", "samlresponse",
		"clientassertion", "recoverycodes", "backupcodes", "passwords", "passwordconfirmation", "apikeys", "accesstokens",
		"refreshtokens", "clientsecrets", "secretkeys", "privatekeys", "privatekeypem", "dockerconfigjson", "basicauth",
		"xauthkey", "xfunctionskey", "xapiauth", "ddapplicationkey", "otp", "mnemonic", "seedwords", "cred", "connstr",
		"clientkeydata", "secrettext", "samlassertion", "otpauthurl", "otpauthuri", "authtokens", "apitokens":
		return true
	}
	switch n[len(n)-1] {
	case 'd':
		return endsIn(n, "password", "passwd", "userpwd", "dbpwd")
	case 'e':
		return endsIn(n, "passphrase", "seedphrase", "recoveryphrase", "mnemonicphrase", "backupphrase", "secretphrase", "secretvalue",
			"sessioncookie", "authcookie", "passcode")
	case 'h':
		return endsIn(n, "passwordhash", "passwdhash")
	case 'g':
		return endsIn(n, "connectionstring")
	case 'k':
		return endsIn(n, "psk")
	case 'l', 's':
		return endsIn(n, "credential", "credentials", "creds")
	case 't':
		return endsIn(n, "secret", "passworddigest")
	case 'r':
		return endsIn(n, "codeverifier", "pkceverifier", "authheader", "authorizationheader", "securityanswer", "secretanswer")
	case 'y':
		kind, ok := bytes.CutSuffix(n, []byte("key"))
		return ok && endsIn(kind, "api", "secret", "access", "private", "account", "session",
			"signing", "encryption", "master", "token", "servicerole", "subscription", "storage", "hmac", "shared",
			"auth", "client", "server", "decryption", "encrypt", "cipher", "aes", "integration", "recovery", "application", "reliclicense", "ingest",
			"ingestion", "write")
	case 'n':
		kind, ok := bytes.CutSuffix(n, []byte("token"))
		return ok && endsIn(kind, "access", "refresh", "auth", "oauth2", "api", "bearer", "session", "security", "private", "bot",
			"user", "deploy", "job", "runner", "registration", "reset", "invite", "verification", "csrf", "xsrf", "admin", "root",
			"service", "installation", "webhook", "github", "gh", "gitlab", "slack", "linear", "sentry", "npm", "pypi", "vault",
			"consul", "circle", "discord", "telegram", "hf", "cloudflare", "notion", "app", "client", "login", "authenticity", "middleware", "confirmation", "activation", "invitation",
			"join", "bootstrap", "enrollment", "registry", "publish", "management", "cluster", "agent", "project", "group", "team",
			"workspace", "integration", "personal", "impersonation", "subject", "actor", "identity", "account", "sas", "master") || endsIn(n, "authorization")
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
	case bytes.Contains(n, []byte("page")), bytes.Contains(n, []byte("next")), bytes.Contains(n, []byte("continuation")),
		endsIn(n, "bypass", "compass"):
		return false
	case name[0]|0x20 == 'x' && name[1] == '-':
		return true
	}
	return bytes.IndexByte(name, '_') > 0 && !bytes.ContainsFunc(name, func(r rune) bool { return 'a' <= r && r <= 'z' })
}

// secretParameter reports whether name=value, in a URL above all, holds one.
func secretParameter(name []byte) bool {
	if secretText(name) || string(name) == "_auth" {
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
	if len(name) > len("ticket") {
		return false
	}
	var buf [maxNormal]byte
	switch string(normal(&buf, name)) {
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
