//! Settings that are one word out of a few: an enum per setting, with its words written once, so
//! that reading, printing and the text "allowed is a, b or c" cannot differ.

/// A setting whose value is one of a few words.
pub trait Choice: Copy + PartialEq + Sized + 'static {
    /// Every value, in the order in which help and errors name them.
    const ALL: &'static [Self];

    /// The word in configuration files.
    fn as_str(self) -> &'static str;

    /// The value of a word, in any case, or `None` if it is none of [`Self::ALL`].
    fn from_word(word: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|choice| choice.as_str().eq_ignore_ascii_case(word))
    }

    /// All words, as errors show them: `a | b | c`.
    fn words() -> String {
        let words: Vec<&str> = Self::ALL.iter().map(|choice| choice.as_str()).collect();
        words.join(" | ")
    }
}

/// Declares an enum of words and its [`Choice`]; the first variant is the default.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        $name:ident { $(#[$first_meta:meta])* $first:ident = $first_word:literal
            $(, $(#[$other_meta:meta])* $other:ident = $other_word:literal)* $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name {
            $(#[$first_meta])*
            #[default]
            $first,
            $($(#[$other_meta])* $other,)*
        }

        impl $crate::config::choice::Choice for $name {
            const ALL: &'static [Self] = &[Self::$first, $(Self::$other),*];

            fn as_str(self) -> &'static str {
                match self {
                    Self::$first => $first_word,
                    $(Self::$other => $other_word,)*
                }
            }
        }
    };
}
pub(crate) use choice;

/// Gives the words of an enum that is declared elsewhere: its [`Choice`].
macro_rules! words {
    ($name:ident { $($variant:ident = $word:literal),* $(,)? }) => {
        impl $crate::config::choice::Choice for $name {
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    };
}
pub(crate) use words;
