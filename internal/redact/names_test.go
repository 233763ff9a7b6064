package redact_test

import (
	"fmt"
	"strings"
	"testing"
)

// secretNames are what services and programs call members that hold a secret,
// whatever its type is.
var secretNames = strings.Fields(`
password passwd pwd passphrase user_password new_password old_password current_password password_confirmation confirm_password
password1 password2 password_hash password_digest encrypted_password hashed_password db_password root_password admin_password
redis_password smtp_password ldap_bind_password keystore_password master_password wifi_password sudo_password
PGPASSWORD MYSQL_ROOT_PASSWORD POSTGRES_PASSWORD SMTP_PASS DB_PASS REDIS_PASSWORD RABBITMQ_DEFAULT_PASS JWT_SECRET_KEY DJANGO_SECRET_KEY
secret client_secret app_secret api_secret consumer_secret webhook_secret signing_secret shared_secret jwt_secret token_secret
secret_key secret_access_key aws_secret_access_key oauth_token_secret cookie_secret session_secret totp_secret secret_value
access_key storage_access_key account_key shared_access_key primary_access_key
api_key apikey x_api_key api_keys google_api_key openai_api_key anthropic_api_key stripe_api_key sendgrid_api_key api_key_2
private_key ssh_private_key rsa_private_key private_key_pem tls_private_key encryption_key decryption_key master_key signing_key
session_key subscription_key hmac_key auth_key server_key integration_key recovery_key
token access_token refresh_token id_token auth_token api_token bearer_token session_token security_token private_token bot_token
deploy_token job_token runner_token registration_token reset_token password_reset_token invite_token verification_token csrf_token xsrf_token
csrfmiddlewaretoken authenticity_token personal_access_token oauth_token oauth2_token user_access_token page_access_token
service_token service_account_token installation_token webhook_token admin_token root_token vault_token app_token login_token client_token
join_token bootstrap_token enrollment_token registry_token publish_token subject_token actor_token identity_token
GITHUB_TOKEN GH_TOKEN GITLAB_TOKEN CI_JOB_TOKEN NPM_TOKEN NODE_AUTH_TOKEN SLACK_BOT_TOKEN SENTRY_AUTH_TOKEN LINEAR_API_KEY HF_TOKEN
DIGITALOCEAN_ACCESS_TOKEN CLOUDFLARE_API_TOKEN HEROKU_API_KEY AWS_SESSION_TOKEN AWS_SECRET_ACCESS_KEY TWILIO_AUTH_TOKEN PYPI_TOKEN
NEW_RELIC_LICENSE_KEY DD_API_KEY DD_APPLICATION_KEY AZURE_CLIENT_SECRET SECRET_KEY_BASE
Authorization Proxy-Authorization X-Api-Key X-Auth-Token X-Vault-Token X-Gitlab-Token PRIVATE-TOKEN X-Amz-Security-Token X-CSRF-Token
X-Functions-Key Ocp-Apim-Subscription-Key X-Shopify-Access-Token X-Goog-Api-Key DD-API-KEY Cookie Set-Cookie Api-Key
cookie cookies session_cookie auth_header authorization_header
credential credentials creds db_creds aws_credentials connection_string database_connection_string jwt bearer
otp totp psk wpa_psk pre_shared_key passcode code_verifier client_assertion saml_response
mnemonic mnemonic_phrase seed_phrase recovery_phrase recovery_codes backup_codes security_answer
kubeconfig .dockerconfigjson basic_auth
`)

// secretTexts are secret when they hold a text.
var secretTexts = strings.Fields(`
pass auth user_pass db_pass smtp_pass mail_pass ftp_pass proxy_pass root_pass admin_pass auth_pass store_pass key_pass login_pass
otp_code mfa_code verification_code authorization_code auth_code device_code sms_code two_factor_code recovery_code backup_code
`)

// innocentNames look a little like it.
var innocentNames = strings.Fields(`
ALLOW_BYPASS MY_COMPASS author authors author_id authored_by authority authorized authorized_at is_authorized authentication authentication_method auth_type auth_method
auth_url auth_provider oauth oauth_apps oauth2 oauth_scopes oauth_client_id unauthorized authorization_endpoint authorization_url
pass_rate passed passes passing passive passenger passport compass bypass bypass_actors trespass first_pass low_pass high_pass second_pass
num_passes pass_percentage test_pass password_changed_at password_reset_required password_policy password_length passwordless
password_expires_at password_strength reset_password_url passwords_changed
token_count max_tokens min_tokens total_tokens prompt_tokens completion_tokens max_completion_tokens input_tokens output_tokens tokens
tokens_used token_type token_id token_name token_endpoint token_url token_expires_in token_limit tokenizer tokenize tokenized
next_page_token page_token nextPageToken NextToken prev_page_token continuation_token sync_token resume_token next_token pagination_token
pad_token eos_token bos_token unk_token cls_token mask_token stop_token
key keys primary_key primary_keys foreign_key sort_key partition_key public_key publishable_key public_keys cache_key idempotency_key issue_key
project_key object_key routing_key group_key keyboard keyword keywords key_id api_key_id access_key_id aws_access_key_id key_name keyring monkey
hotkey turkey registry_key host_key key_code row_key composite_key unique_key lookup_key translation_key
secretary secret_santa secret_name secret_id secret_arn secret_version secret_ref secrets_count secret_scanning secret_type
cookie_policy cookie_consent cookie_domain credential_type credential_id credentials_count credited
code codes status_code zip_code country_code error_code exit_code postal_code barcode encode source_code http_code currency_code language_code
code_owner code_review discount_code
session session_id session_count sessions otp_enabled otp_required mfa_enabled two_factor_enabled pin pins pinned spin
phrase search_phrase seed random_seed seeds mnemonics_enabled recovery_email recovery_time backup backup_id backups verifier verified
signature_algorithm hash password_hash_algorithm digest certificate fingerprint user username user_name login login_url login_count email
bearer_format bearing basic basics private is_private private_repo shared shared_with access access_level accessed_at accessibility
api api_version api_url secure security security_policy encrypted encryption encryption_algorithm vault_name webhook_url webhook_id
connection connection_id connections description subscription subscription_id storage storage_class account account_id master master_branch
credit credo credits cred_type sacred otpauth_enabled dotpath laptop_model deploy_key deploy_keys ssh_key ssh_keys gpg_key
`)

func TestSecretNames(t *testing.T) {
	const plain = "Canary-hunter"
	for _, name := range secretNames {
		for _, value := range []string{`"%s"`, `["%s"]`, `{"x":"%s"}`} {
			stays(t, false, fmt.Sprintf(`{%q:`+value+`}`, name, plain))
		}
		stays(t, false, fmt.Sprintf(`{%q:123456}`, name))
	}
	for _, name := range secretTexts {
		stays(t, false, fmt.Sprintf(`{%q:%q}`, name, plain))
		stays(t, false, fmt.Sprintf(`{%q:{"password":%q}}`, name, plain))
		stays(t, true, fmt.Sprintf(`{%q:{"type":"oauth2"},"n":{%[1]q:12}}`, name))
		stays(t, false, fmt.Sprintf(`{"text":"got {\"%s\": \"%s\"} and"}`, name, plain))
	}
	for _, name := range innocentNames {
		for _, value := range []string{`"Canary-hunter"`, `["x"]`, `{"x":"y"}`, `123456`} {
			stays(t, true, fmt.Sprintf(`{%q:%s}`, name, value))
		}
		stays(t, true, fmt.Sprintf(`{"text":"%s: Canary, or %[1]s=1 and {\"%[1]s\": \"Canary\"}"}`, name))
	}
	for _, kind := range []string{"required", "none", "basic", "oauth2", "API key", "Bearer"} {
		stays(t, true, fmt.Sprintf(`{"auth":%q,"pass":"yes"}`, kind))
	}
}

func stays(t *testing.T, want bool, raw string) {
	t.Helper()
	if out := string(hashed.Redact([]byte(raw), nil)); (out == raw) != want || !want && strings.Contains(out, "Canary") {
		t.Errorf("%s\nbecomes %s", raw, out)
	}
}
