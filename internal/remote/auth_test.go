package remote

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAuthIsNoOutage: whatever a server or a proxy calls it, a password that is missing or wrong is not asked about again, is no outage,
// and the advice is what mends it.
func TestAuthIsNoOutage(t *testing.T) {
	for text, advice := range map[string]string{
		"NOAUTH Authentication required.":                                                 "none was given; set Password",
		"ERR operation not permitted":                                                     "none was given; set Password",
		"WRONGPASS invalid username-password pair":                                        "check Username and Password",
		"ERR invalid password":                                                            "check Username and Password",
		"ERR AUTH failed at the upstream":                                                 "check Username and Password",
		"ERR Client sent AUTH, but no password is set":                                    "leave out Username and Password",
		"ERR AUTH <password> called without any password configured for the default user": "leave out Username and Password",
	} {
		err := refusal(text)
		sent, passing := Classify(err)
		require.False(t, sent || passing, text)
		require.False(t, IsOutage(err), text)
		require.ErrorContains(t, Explain(err, "name", false), advice)
		require.ErrorIs(t, Explain(err, "name", false), err)
	}
}
