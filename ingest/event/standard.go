package event

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// VerifyStandard returns nil when a delivery was signed as Standard Webhooks has
// it: one header each of webhook-id, webhook-timestamp (in seconds) and
// webhook-signature, a list of signatures by one of the secrets or more. A
// secret that begins with whsec_ is base64 of the key, any other is the key. An
// empty key verifies nothing. Errors are [ErrSignature] and [ErrStale].
func VerifyStandard(h http.Header, body []byte, secrets [][]byte, now time.Time, tolerance time.Duration) error {
	id, _ := Header(h, "Webhook-Id")
	sent, _ := Header(h, "Webhook-Timestamp")
	list, _ := Header(h, "Webhook-Signature")
	seconds, err := strconv.ParseInt(sent, 10, 64)
	// With a full stop in it, what was signed as body could be read as a time.
	if id == "" || strings.Contains(id, ".") || err != nil {
		return ErrSignature
	}
	given := standardDigests(list)
	found := false
	for _, secret := range secrets {
		want := standardDigest(id, sent, body, secret)
		for _, digest := range given {
			found = want != nil && hmac.Equal(want, digest) || found
		}
	}
	if !found {
		return ErrSignature
	}
	return CheckTimestamp(time.Unix(seconds, 0), now, tolerance)
}

// SignStandard returns what goes into webhook-signature of a delivery whose
// webhook-id is id, without a full stop, and whose webhook-timestamp is at in
// seconds. It is empty when the secret has no key in it, see [VerifyStandard]:
// such a delivery is not to be sent.
func SignStandard(id string, at time.Time, body, secret []byte) string {
	digest := standardDigest(id, strconv.FormatInt(at.Unix(), 10), body, secret)
	if digest == nil {
		return ""
	}
	return "v1," + base64.StdEncoding.EncodeToString(digest)
}

// standardDigests parses the signature header. Signatures of other versions
// are ignored.
func standardDigests(list string) (all [][]byte) {
	for _, one := range strings.Fields(list) {
		text, ok := strings.CutPrefix(one, "v1,")
		digest, err := base64.StdEncoding.DecodeString(text)
		if ok && err == nil && len(digest) == sha256.Size {
			all = append(all, digest)
		}
	}
	return all
}

// standardDigest returns nil without a key.
func standardDigest(id, sent string, body, secret []byte) []byte {
	key := standardKey(secret)
	if len(key) == 0 {
		return nil
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + sent + "."))
	mac.Write(body)
	return mac.Sum(nil)
}

func standardKey(secret []byte) []byte {
	text, ok := bytes.CutPrefix(secret, []byte("whsec_"))
	if !ok {
		return secret
	}
	key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(string(text), "="))
	if err != nil {
		return nil
	}
	return key
}
