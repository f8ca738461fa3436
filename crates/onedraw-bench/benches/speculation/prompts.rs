//! What the texts of the bench are about.

/// How many texts a row of the table has.
pub const COUNT: usize = 16;

/// What a text is.
#[derive(Clone, Copy, PartialEq)]
pub enum Theme {
    /// A story after its first words.
    Story,
    /// A story of the model's own, told again.
    StoryAgain,
    /// The answer to a question.
    Answer,
    /// A text that the prompt has, in fewer or in correct words.
    Task,
}

impl Theme {
    /// The first words of a story, or what a user says.
    pub fn words(self, number: usize) -> String {
        match self {
            Self::Story | Self::StoryAgain => STORIES[number % COUNT].to_owned(),
            Self::Answer => QUESTIONS[number % COUNT].to_owned(),
            Self::Task => {
                let (whole, with_errors) = TEXTS[number / 2 % TEXTS.len()];
                match number % 2 {
                    0 => format!("Summarize the following text in a few sentences:\n\n{whole}"),
                    _ => {
                        format!("Correct the spelling of this text and change nothing else:\n\n{with_errors}")
                    }
                }
            }
        }
    }

    /// Whether the words are those of a user, whom the model answers.
    pub fn is_asked(self) -> bool {
        matches!(self, Self::Answer | Self::Task)
    }
}

const STORIES: [&str; COUNT] = [
    "Once upon a time",
    "One day",
    "The little dog",
    "Lily and Tom",
    "There was a boy named Max",
    "In a small house",
    "A big bear",
    "Mom said",
    "Sara had a red ball",
    "It was a sunny day",
    "The bird flew",
    "Ben wanted to",
    "\"Look!\" said the cat",
    "Every night",
    "Anna and her brother",
    "The old man",
];

const QUESTIONS: [&str; COUNT] = [
    "What is the capital of France? Tell me something about it.",
    "Why is the sky blue?",
    "How do I boil an egg?",
    "Explain how a bicycle stays upright.",
    "What should I pack for three days in the mountains?",
    "Write a short poem about the sea.",
    "How does a refrigerator work?",
    "Give me five tips for learning a language.",
    "Why do leaves change their colour in autumn?",
    "Write an email that asks a colleague to move a meeting.",
    "What is the difference between weather and climate?",
    "How can I sleep better?",
    "Describe a market in the morning.",
    "What does a compiler do?",
    "How is paper made?",
    "What is a good way to save water at home?",
];

/// Texts, and the same with errors.
const TEXTS: [(&str, &str); COUNT / 2] = [
    (
        "The lighthouse on the cliff was built in 1874. For eighty years a keeper lived in it with his family and lit the lamp every evening. Since 1954 the lamp has been electric and turns itself on. The keeper's rooms are a museum now, and visitors can climb the one hundred and twelve steps to the top.",
        "The lighthouse on the clif was biult in 1874. For eighty yeers a keeper lived in it with his famly and lit the lamp every evning. Since 1954 the lamp has been electrik and turns itself on. The keeper's rooms are a musuem now, and visiters can climb the one hundred and twelve steps to the top.",
    ),
    (
        "Bees find their way home by the position of the sun. On a cloudy day they use the pattern of light in the small patches of blue sky. A bee that has found a good meadow dances in the hive, and the direction of her dance tells the others where to fly. The longer she dances, the farther away the flowers are.",
        "Bees find there way home by the posision of the sun. On a clowdy day they use the patern of light in the small patches of blue sky. A bee that has fuond a good medow dances in the hive, and the direcsion of her dance tells the others where to fly. The longer she dances, the farthr away the flowers are.",
    ),
    (
        "The new library opens on Monday at nine. It has two floors, a room for children, and forty desks with lamps. Books can be borrowed for four weeks, and films for one. People who live in the town pay nothing, and others pay ten euros a year. The café on the roof opens in spring.",
        "The new libary opens on Munday at nine. It has two flors, a room for childern, and forty desks with lamps. Books can be borowed for four weeks, and films for one. Peeple who live in the town pay nothing, and others pay ten euros a yeer. The café on the roof opens in sprng.",
    ),
    (
        "To bake the bread, mix the flour with the salt and the yeast, then add the warm water. Knead the dough for ten minutes and let it rest for an hour under a cloth. Form a round loaf, let it rest for another half hour, and bake it at two hundred and thirty degrees until the crust is brown.",
        "To bake the bred, mix the flower with the salt and the yeast, then ad the warm water. Knead the dogh for ten minuts and let it rest for an hour under a cloth. Form a rownd loaf, let it rest for anuther half hour, and bake it at two hundred and thirty degres until the crust is brown.",
    ),
    (
        "The train to the coast leaves at seven in the morning from platform four. The journey takes three hours, and passengers change once, in a small station beside the river. In winter the line is sometimes closed because of snow. Then a bus goes from the square in front of the station every two hours.",
        "The train to the cost leaves at seven in the mornng from platform four. The jorney takes three hours, and pasengers change once, in a small stasion beside the river. In winter the line is somtimes closed becaus of snow. Then a bus goes from the squar in front of the station every two hours.",
    ),
    (
        "Glaciers are rivers of ice that move a few metres in a year. Snow that falls on the mountain is pressed together until the air is gone and it becomes ice. The glacier carries stones along, which scratch the rock below it. Where the ice melts, it leaves the stones behind in long hills.",
        "Glaciers are rivrs of ice that move a few metres in a yaer. Snow that fals on the mountan is presed together until the air is gone and it becoms ice. The glacier carries stones along, wich scratch the rock below it. Were the ice melts, it leaves the stones behind in long hils.",
    ),
    (
        "The orchestra played three works last night. The first was short and loud, and the second a concerto for a violin that is three hundred years old. After the break came a symphony that had not been heard in this city for forty years. The audience clapped for so long that the last part was played again.",
        "The orkestra played three works last nite. The first was short and loud, and the second a conserto for a violin that is three hundred yeers old. After the brake came a symfony that had not been herd in this city for forty years. The audiense clapped for so long that the last part was playd again.",
    ),
    (
        "A computer stores numbers as rows of zeros and ones. Each place is worth twice as much as the one to its right, so eight places are enough for the numbers from 0 to 255. Letters are stored as numbers too, by a table that everybody agreed on. Pictures are rows of numbers for red, green and blue.",
        "A computer stors numbers as rows of zeros and ones. Each plase is worth twice as much as the one to its rigt, so eight places are enuf for the numbers from 0 to 255. Leters are stored as numbers too, by a table that everbody agreed on. Pictures are rows of nummbers for red, green and blue.",
    ),
];
