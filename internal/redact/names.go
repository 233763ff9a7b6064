package redact

import "bytes"

// maxNormalized limits how much of the end of a name is used.
const maxNormalized = 48

// normalizeName writes the end of a name, without case and punctuation, into
// buf. A path is not a name.
func normalizeName(buf *[maxNormalized]byte, name []byte) []byte {
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

// role is what the name of a member says of its value or of the other members.
type role int

const (
	rolePlain role = iota
	roleSecret
	roleLabel      // its value names what another member holds
	roleValue      // it holds what another member names
	roleSecretText // a string value is a secret, as in {"auth": "…"}; other values are searched
)

func roleOf(name []byte) role {
	var buf [maxNormalized]byte
	n := normalizeName(&buf, name)
	switch string(n) {
	case "name", "key", "header", "headername", "field", "fieldname", "param", "parameter", "variable", "k":
		return roleLabel
	case "value", "values", "headervalue", "val", "v":
		return roleValue
	}
	switch {
	case isSecret(n) || isTokenByForm(name, n):
		return roleSecret
	case string(n) == "auth" || isAmbiguousSecret(n):
		return roleSecretText
	}
	return rolePlain
}

// secretName reports whether a member with the name holds a secret, whatever
// its value.
func secretName(name []byte) bool {
	var buf [maxNormalized]byte
	n := normalizeName(&buf, name)
	return isSecret(n) || isTokenByForm(name, n)
}

// secretText reports whether a text with the name is a secret.
func secretText(name []byte) bool {
	var buf [maxNormalized]byte
	n := normalizeName(&buf, name)
	return isSecret(n) || isAmbiguousSecret(n) || isTokenByForm(name, n)
}

// isAmbiguousSecret matches names that mean something else if their value is
// not a text, such as a count of passing tests or an OAuth flow.
func isAmbiguousSecret(n []byte) bool {
	n = trimDigits(n)
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

// isAuthScheme reports whether the value of a member such as auth is a method
// or a flag rather than a secret.
func isAuthScheme(text []byte) bool {
	var buf [maxNormalized]byte
	switch string(normalizeName(&buf, text)) {
	case "none", "anonymous", "public", "private", "required", "optional", "inherit", "noauth", "basic", "bearer", "digest", "ntlm",
		"oauth", "oauth1", "oauth2", "oidc", "openid", "saml", "ldap", "sso", "mtls", "ssh", "iam", "jwt", "pat", "apikey", "token",
		"password", "user", "session", "cookie", "true", "false", "yes", "no", "ok", "pass", "fail", "passed", "failed", "string":
		return len(text) < maxNormalized
	}
	return false
}

func trimDigits(n []byte) []byte {
	for len(n) > 0 && sets[n[len(n)-1]]&digit != 0 {
		n = n[:len(n)-1]
	}
	return n
}

// isSecret matches whole names, and endings that indicate a secret whatever
// precedes them: GITHUB_TOKEN, but not next_page_token. It ignores trailing
// digits.
func isSecret(n []byte) bool {
	n = trimDigits(n)
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

// isTokenByForm reports whether a name that ends in token has the form of a
// credential's name: an environment variable or a custom header.
func isTokenByForm(name, n []byte) bool {
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

// secretParameter reports whether name=value, especially in a URL, holds a
// secret.
func secretParameter(name []byte) bool {
	if secretText(name) || string(name) == "_auth" {
		return true
	}
	var buf [maxNormalized]byte
	switch string(normalizeName(&buf, name)) {
	case "sig", "signature", "xamzsignature", "xamzcredential", "xgoogsignature", "xgoogcredential", "jsessionid", "phpsessid", "connectsid":
		return true
	}
	return false
}

// isQueryKey reports whether a query parameter with the name may hold a secret
// if its value looks like one.
func isQueryKey(name []byte) bool {
	if len(name) > len("ticket") {
		return false
	}
	var buf [maxNormalized]byte
	switch string(normalizeName(&buf, name)) {
	case "key", "code", "auth", "ticket", "k":
		return true
	}
	return false
}

// secretHeader reports whether the rest of a line after this name and a colon
// is a secret.
func secretHeader(name []byte) bool {
	if !secretName(name) {
		return false
	}
	var buf [maxNormalized]byte
	n := normalizeName(&buf, name)
	return bytes.IndexByte(name, '-') > 0 || endsIn(n, "authorization") || string(n) == "cookie"
}

// passwordName reports whether the word after this name and a colon is a
// secret, whatever it looks like, in text that is neither JSON nor a header.
func passwordName(name []byte) bool {
	var buf [maxNormalized]byte
	return endsIn(normalizeName(&buf, name), "password", "passwd", "passphrase", "clientsecret", "secretaccesskey", "accesstoken", "refreshtoken")
}
