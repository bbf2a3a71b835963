package lua

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAuthProblems: what servers and proxies say of a user and a password, and what is said of something else.
func TestAuthProblems(t *testing.T) {
	for text, is := range map[string]AuthProblem{
		"NOAUTH Authentication required.":                                                           AuthMissing,
		"NOAUTH Authentication required":                                                            AuthMissing,
		"-NOAUTH Authentication required.":                                                          AuthMissing, // with the sign of an error written twice
		"NOAUTH HELLO must be called with the client":                                               AuthMissing,
		"Protocol error: unauthenticated bulk length":                                               AuthMissing,
		"ERR Protocol error: unauthenticated multibulk length":                                      AuthMissing,
		"ERR operation not permitted":                                                               AuthMissing,
		"ERR Authentication required.":                                                              AuthMissing,
		"ERR Error running script (call to f_1): @user_script:14: -NOAUTH Authentication required.": AuthMissing,

		"WRONGPASS invalid username-password pair or user is disabled.": AuthWrong,
		"ERR invalid password":                       AuthWrong,
		"ERR invalid username-password pair":         AuthWrong,
		"ERR AUTH failed: WRONGPASS at the upstream": AuthWrong,
		"ERR Authentication failed":                  AuthWrong,

		"ERR Client sent AUTH, but no password is set":                                          AuthUnwanted,
		"ERR Client sent AUTH, but no username-password pair is set":                            AuthUnwanted,
		"ERR AUTH <password> called without any password configured for the default user. Are…": AuthUnwanted,
		"ERR HELLO AUTH called without any password configured":                                 AuthUnwanted,

		"NOPERM this user has no permissions to run the 'evalsha' command": AuthFine,
		"ERR unknown command 'AUTH'":                                       AuthFine,
		"ERR the key \"invalid password\" is another's":                    AuthFine,
		"READONLY You can't write against a read only replica.":            AuthFine,
		"upstream failure": AuthFine, // Envoy, whatever happened there
	} {
		require.Equal(t, is, AuthProblemOf(fmt.Errorf("wrapped: %w", proto(text))), text)
		require.Equal(t, AuthFine, AuthProblemOf(errors.New(text)), "no server said it")
	}
	require.Equal(t, AuthFine, AuthProblemOf(nil))
}
