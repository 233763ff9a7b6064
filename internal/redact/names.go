package redact

// normal writes a name without case and punctuation into buf. A name too long
// to be one of ours comes back empty.
func normal(buf *[32]byte, name []byte) []byte {
	n := 0
	for _, c := range name {
		switch {
		case c == '-' || c == '_' || c == '.' || c == ' ':
			continue
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		if n == len(buf) {
			return nil
		}
		buf[n] = c
		n++
	}
	return buf[:n]
}

// secretName reports whether a member of that name holds a secret.
func secretName(name []byte) bool {
	var buf [32]byte
	switch string(normal(&buf, name)) {
	case "password", "passwd", "pwd", "passphrase", "userpassword", "dbpassword", "databasepassword", "adminpassword",
		"rootpassword", "oldpassword", "newpassword", "currentpassword", "confirmpassword", "passwordconfirmation",
		"secret", "clientsecret", "appsecret", "apisecret", "apikeysecret", "sharedsecret", "signingsecret", "webhooksecret",
		"consumersecret", "totpsecret", "secretkey", "secretaccesskey", "awssecretaccesskey", "secretstring", "secretbinary",
		"secretvalue", "secretkeybase",
		"token", "accesstoken", "refreshtoken", "idtoken", "authtoken", "apitoken", "bearertoken", "sessiontoken",
		"awssessiontoken", "securitytoken", "oauthtoken", "oauth2token", "bottoken", "usertoken", "bearer",
		"githubtoken", "ghtoken", "gitlabtoken", "slacktoken", "lineartoken", "sentryauthtoken", "npmtoken", "vaulttoken",
		"personalaccesstoken", "accesstokensecret", "tokensecret", "clientassertion", "csrftoken", "xcsrftoken", "xsrftoken",
		"xauthtoken", "xaccesstoken", "xgitlabtoken", "xvaulttoken", "xamzsecuritytoken", "jwt",
		"apikey", "xapikey", "apiaccesskey", "accountkey", "privatekey", "privatekeypem", "sshprivatekey", "sessionkey",
		"signingkey", "encryptionkey", "masterkey", "serviceaccountkey", "subscriptionkey", "ocpapimsubscriptionkey",
		"authorization", "proxyauthorization", "xauthorization", "cookie", "cookies", "setcookie",
		"credential", "credentials", "connectionstring", "kubeconfig", "samlresponse", "recoverycodes", "backupcodes":
		return true
	}
	return false
}

// secretParameter reports whether name=value, in a URL above all, holds one.
func secretParameter(name []byte) bool {
	if secretName(name) {
		return true
	}
	var buf [32]byte
	switch string(normal(&buf, name)) {
	case "sig", "signature", "xamzsignature", "xamzcredential", "xgoogsignature", "xgoogcredential":
		return true
	}
	return false
}

// secretHeader reports whether the rest of a line that begins with this name
// and a colon is one.
func secretHeader(name []byte) bool {
	var buf [32]byte
	switch string(normal(&buf, name)) {
	case "authorization", "proxyauthorization", "xauthorization", "cookie", "setcookie", "xapikey", "apikey", "xauthtoken",
		"xaccesstoken", "xgitlabtoken", "xvaulttoken", "xamzsecuritytoken", "privatetoken":
		return true
	}
	return false
}

// passwordName reports whether the word after this name and a colon is one,
// in text that is neither JSON nor a header.
func passwordName(name []byte) bool {
	var buf [32]byte
	switch string(normal(&buf, name)) {
	case "password", "passwd", "passphrase", "clientsecret", "secretaccesskey", "awssecretaccesskey", "accesstoken", "refreshtoken":
		return true
	}
	return false
}
