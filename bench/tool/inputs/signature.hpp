// Detached signatures by OpenSSH's ssh-keygen -Y, namespace `trainwatt`.
#pragma once

#include <string>

namespace tw::bench::tool {

/// The signature of a text by a key (a private key's file; or a public one whose private key an agent holds). A
/// passphrase is asked for on the terminal. Throws UsageError if the key does not sign, EnvironmentError where there
/// is no ssh-keygen.
std::string sign(const std::string& text, const std::string& key);

/// Throws UsageError if the file of allowed signers cannot be read, or is another kind of file.
void check_signers(const std::string& signers);

struct Signed {
  std::string who;   ///< the name that the list has for the key; empty: the signature is not good
  std::string text;  ///< what a person should know: whose key, or why it is not good
};
/// Whether a signature is one of this text by a key that the file of allowed signers (as check_signers() takes) lists.
/// Throws EnvironmentError if there is no ssh-keygen.
Signed verify(const std::string& text, const std::string& signature, const std::string& signers);

}  // namespace tw::bench::tool
