package holdfasttest

import "maps"

// Fits reports whether a fault is about a command.
func Fits(f Fault, args []string) bool { return commandOf(args).fits(f) }

// Scripts are the texts of the library's scripts by their hashes.
func Scripts() map[string]string { return maps.Clone(texts) }

// OpOf is the kind of a command.
func OpOf(args []string) Op { return commandOf(args).op }

// Ran are the hashes of the library's scripts that the server has executed.
func (s *Server) Ran() (hashes []string) {
	s.wires.ran.Range(func(hash, _ any) bool {
		hashes = append(hashes, hash.(string))
		return true
	})
	return hashes
}

// Plain has names that are occupied stay plain locks.
func (s *Server) Plain() { s.wires.plain = func(string) string { return "" } }
